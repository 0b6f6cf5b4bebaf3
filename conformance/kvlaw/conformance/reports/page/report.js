"use strict";
for (const box of document.querySelectorAll(".filter")) {
  const rows = document.getElementById(box.dataset.table).tBodies[0].rows;
  const text = box.querySelector("input[type=search]");
  const kinds = [...box.querySelectorAll("input[type=checkbox]")];
  const left = box.querySelector(".left");
  const apply = () => {
    const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = new Set(kinds.filter((kind) => kind.checked).map((kind) => kind.value));
    let count = 0;
    for (const row of rows) {
      const kind = row.dataset.kind.split(" ").some((one) => shown.has(one));
      const told = row.textContent.toLowerCase();
      row.hidden = !(kind && words.every((word) => told.includes(word)));
      count += row.hidden ? 0 : 1;
    }
    left.textContent = `${count} of ${rows.length}`;
  };
  box.hidden = false;
  box.addEventListener("input", apply);
  apply();
}
