"""The specification: the text of the laws, and the one language in which every part of kvlaw speaks.

* ``text/``: the chapters, clause by clause; ``clauses`` loads them (``markdown``, ``chapter`` and ``blocks`` read
  them), ``inventory`` says where every requirement of the inventory went.
* ``config``, ``calls``: what is asked of a cache; ``trace`` writes it as JSON (``structure``, ``trace_schema``),
  ``text_form`` as text (``claims``: what is expected behind ``->``).
* ``observations``: what a cache shows; ``records``: the same, told in token ids.
* ``laws``: conditions over records (``law_text`` compiles them, ``law_helpers`` is what they may call).
* ``contract``: the protocol of a Subject.  ``cite``: how code names the clause that it realises.
"""
