// A growing cache and a sliding-window ring with sinks as a testee of kvlaw, in C++17, without any library.
//
//   g++ -std=c++17 -O2 -o testee testee.cpp
//   kvlaw testee smoke cmd:./testee
//   kvlaw check cmd:./testee
//   kvlaw check 'cmd:./testee --fault=shared-clone'      a mistake switched on: it is found
//
// One JSON message a line comes on stdin, one answer a line goes to stdout. Tensors are bytes, and stay bytes.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

using std::string;
using Int = long long;
using Columns = std::vector<Int>;  // -1: a column of zeros
using Bytes = std::vector<uint8_t>;

struct Refusal : std::runtime_error { using runtime_error::runtime_error; };  // before anything has changed
struct Unsupported : std::runtime_error { using runtime_error::runtime_error; };
static std::set<string> faults;

static void refuse_if(bool condition, const string& text) { if (condition) throw Refusal(text); }
static Columns range(Int start, Int end) {
  Columns out(std::max<Int>(0, end - start));
  std::iota(out.begin(), out.end(), start);
  return out;
}
static Columns operator+(Columns left, const Columns& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

// ---- JSON, as much of it as the protocol needs, and base64 ---------------------------------------------------------

struct Json {
  string text = "null";  // of a string, a number or a word, as it stands there
  std::vector<Json> items;
  std::map<string, Json> fields;
  bool has(const string& name) const { return fields.count(name) && fields.at(name).text != "null"; }
  const Json& at(const string& name) const {
    if (!has(name)) throw std::runtime_error("the message lacks " + name);
    return fields.at(name);
  }
  const string& word(const string& name) const { return at(name).text; }
  bool flag(const string& name) const { return has(name) && word(name) == "true"; }
  bool is_integer() const { return !text.empty() && text.find_first_not_of("-0123456789") == string::npos; }
  Int integer() const { return std::stoll(text); }
  Int integer(const string& name, Int otherwise) const { return has(name) ? at(name).integer() : otherwise; }
};

class Parser {
 public:
  explicit Parser(const string& source) : s(source) {}
  Json value() {
    Json out;
    const char first = next();
    if (first == '{' || first == '[') {
      out.text.clear();
      for (++i; next() != '}' && next() != ']'; i += next() == ',') {
        if (first == '[') {
          out.items.push_back(value());
          continue;
        }
        const string name = quoted();
        expect(':');
        out.fields[name] = value();
      }
      ++i;
    } else if (first == '"') {
      out.text = quoted();
    } else {
      const size_t end = std::min(s.size(), s.find_first_of(",]} \t\r\n", i));
      if (end == i) throw std::runtime_error("no JSON at byte " + std::to_string(i));
      out.text = s.substr(i, end - i);
      i = end;
    }
    return out;
  }
 private:
  const string& s;
  size_t i = 0;
  char next() {  // behind white space
    i = std::min(s.size(), s.find_first_not_of(" \t\r\n", i));
    return i < s.size() ? s[i] : throw std::runtime_error("the message ends too early");
  }
  void expect(char c) { if (next() != c) throw std::runtime_error(string("missing ") + c); else ++i; }
  string quoted() {  // strings here are names and base64, without escapes like \n
    string out;
    for (expect('"'); i < s.size() && s[i] != '"'; ++i) out += s[i] == '\\' ? s[++i] : s[i];
    expect('"');
    return out;
  }
};

static string quote(const string& text) {
  string out;
  for (char c : text) (out += c == '"' || c == '\\' ? "\\" : "") += c >= 0 && c < 32 ? ' ' : c;
  return '"' + out + '"';
}
template <class Items, class Write>
static string joined(const Items& items, Write write) {
  string out;
  for (const auto& item : items) out += (out.empty() ? "" : ",") + write(item);
  return out;
}
static const char* const DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
static string to_base64(const Bytes& bytes) {
  string out;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    const uint32_t n = bytes[i] << 16 | (left > 1 ? bytes[i + 1] << 8 : 0) | (left > 2 ? bytes[i + 2] : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= left ? DIGITS[n >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}
static Bytes from_base64(const string& text) {
  static const string digits = DIGITS;
  Bytes out;
  uint32_t n = 0, bits = 0;
  for (size_t i = 0; i < text.size() && text[i] != '='; ++i) {
    n = n << 6 | uint32_t(digits.find(text[i]));
    if ((bits += 6) >= 8) out.push_back(uint8_t(n >> (bits -= 8)));
  }
  return out;
}

// ---- Columns of bytes ----------------------------------------------------------------------------------------------

struct Plane {  // of keys or values: [batch, heads, columns, dim]
  string dtype;
  Columns shape;
  std::shared_ptr<Bytes> bytes;

  Plane() = default;
  Plane(string type, Columns s, Bytes b) : dtype(type), shape(s), bytes(std::make_shared<Bytes>(std::move(b))) {}
  Int rows() const { return shape[0] * shape[1]; }
  Int columns() const { return shape[2]; }
  Int width() const { return shape[3] * (dtype == "f32" ? 4 : 2); }  // bytes of a column
  Plane copy() const { return bytes ? Plane(dtype, shape, *bytes) : Plane(); }
  Plane taken(const Columns& kept) const {
    const Int n = Int(kept.size());
    Plane out(dtype, {shape[0], shape[1], n, shape[3]}, Bytes(rows() * n * width()));
    for (Int row = 0; row < rows(); ++row)
      for (Int k = 0; k < n; ++k)
        if (kept[k] >= 0)
          memcpy(&(*out.bytes)[(row * n + k) * width()], &(*bytes)[(row * columns() + kept[k]) * width()], width());
    return out;
  }
  void write(Int at, const Plane& given) {
    const Int size = given.columns() * width();
    for (Int row = 0; row < rows(); ++row)
      memcpy(&(*bytes)[(row * columns() + at) * width()], &(*given.bytes)[row * size], size);
  }
};

struct Mask {  // none, causal, or an array of rows
  string kind = "none";
  std::vector<Columns> rows;
};
struct Read { Plane keys, values; Mask mask; };

// ---- The cache: every operation checks (and refuses before anything has changed), plans, moves, counts -------------

class Cache {
 public:
  static constexpr Int STEP = 256, NEVER = std::numeric_limits<Int>::max();
  bool ring = false, rotated = false;  // rotated: the write index has wrapped since the columns lay in order
  Int window = NEVER, sinks = 0, columns = 0, write_index = 0, offset = 0;
  Plane keys, values;

  explicit Cache(const Json& layer) {
    ring = layer.word("kind") == "ring";
    sinks = layer.integer("sinks", 0);
    for (const char* name : {"bits", "value_bits", "start", "conv"})
      refuse_if(layer.has(name), "it holds tensors alone: no bits, no start, no convolution");
    refuse_if(!ring && (layer.has("window") || sinks), "a growing cache takes no window and no sinks");
    if (ring) window = layer.integer("window", 0);
    refuse_if(window < 1, "a ring needs a window of at least 1");
    refuse_if(sinks < 0 || sinks >= window, "a ring pins fewer sinks than its window");
  }
  void reset() {
    columns = write_index = offset = 0;
    rotated = false;
    keys = values = Plane();
  }
  Int active() const { return !ring ? offset : rotated ? window : write_index; }

  Read append(const Plane& k, const Plane& v, const string& phase, bool as_array) {
    check(k, v, phase);
    const Int length = k.columns();
    const Mask mask = this->mask(length, phase, as_array);
    Columns layout = range(0, columns);  // the columns that stay, in order
    const bool in_place = ring && phase == "decode";
    const Int at = in_place ? plan_decode(layout) : ring ? plan_block(layout, length) : plan_full(layout, length);
    keys = moved(keys, k, layout, at);
    values = moved(values, v, layout, at);
    offset += length;
    return {keys.taken(range(0, active())), values.taken(range(0, active())), mask};
  }

  Mask mask(Int length, const string& phase, bool as_array) const {  // of the append that comes next
    refuse_if(length < 1 || (phase == "decode" && length != 1), "no mask for so many positions");
    const Columns order = order_of_fetch(length, phase);
    const Int width = Int(order.size());
    if (!as_array && width <= window) return {phase == "decode" ? "none" : "causal", {}};
    Mask out{"array", {}};
    for (Int own = width - length; own < width; ++own) {
      out.rows.emplace_back();
      for (Int age : order) out.rows.back().push_back(age <= own && (age < sinks || own - age < window - sinks));
    }
    return out;
  }
  bool can_trim(Int n) const {
    if (ring && offset >= window && !faults.count("trim-after-wrap")) return false;
    return n >= 0 && n <= offset;
  }
  void trim(const Json& count) {
    refuse_if(!count.is_integer() || !can_trim(count.integer()), count.text + " positions cannot be dropped");
    write_index = std::max<Int>(0, write_index - count.integer());
    offset -= count.integer();
  }
  Cache clone() const {
    Cache twin = *this;
    if (!faults.count("shared-clone")) twin.keys = keys.copy(), twin.values = values.copy();
    return twin;
  }
 private:
  Int plan_full(Columns& layout, Int length) {
    if (offset + length > columns) {
      columns = (offset + length + STEP - 1) / STEP * STEP;
      layout = range(0, offset) + Columns(columns - offset, -1);
    }
    write_index = offset + length;
    return offset;
  }
  Int plan_decode(Columns& layout) {  // in place: grow or drop what is over, wrap, write
    const Int excess = std::max<Int>(0, columns - window);
    const Int added = rotated || write_index < columns ? 0 : std::max<Int>(0, std::min(STEP, window - columns));
    if (excess) layout = range(0, sinks) + range(sinks + excess, columns);
    layout = layout + Columns(added, -1);
    const bool wraps = write_index >= window - Int(faults.count("wrap-early"));
    const Int at = wraps ? sinks : write_index;
    columns += added - excess;
    write_index = at + 1;
    rotated = rotated || wraps;
    return at;
  }
  Int plan_block(Columns& layout, Int length) {  // behind all that its first query may see, oldest first
    layout = range(0, active());
    if (rotated) layout = range(0, sinks) + range(write_index, window) + range(sinks, write_index);
    const Int excess = std::max<Int>(0, Int(layout.size()) - (window - 1)), at = Int(layout.size()) - excess;
    if (excess) layout.erase(layout.begin() + sinks, layout.begin() + sinks + excess);
    layout = layout + Columns(length, -1);
    columns = write_index = Int(layout.size());
    rotated = false;
    return at;
  }
  Columns order_of_fetch(Int length, const string& phase) const {  // the place of each column in temporal order
    if (!ring) return range(0, offset + length);
    if (phase != "decode") return range(0, std::min(active(), window - 1) + length);
    Columns order = range(0, std::min(active() + 1, window));
    if (active() < window) return order;
    const Int newest = write_index >= window ? sinks : write_index;
    for (Int c = sinks; c < window; ++c) order[c] = c > newest ? sinks + c - newest - 1 : c + window - newest - 1;
    return order;
  }
  Plane moved(const Plane& held, const Plane& given, const Columns& layout, Int at) const {
    const Plane before = held.bytes ? held : given.taken({});
    Plane out = layout == range(0, before.columns()) ? before : before.taken(layout);
    out.write(at, given);
    return out;
  }
  void check(const Plane& k, const Plane& v, const string& phase) const {
    refuse_if(k.shape.size() != 4 || v.shape.size() != 4, "keys and values are [B, H, L, D]");
    for (int axis : {0, 1, 2}) refuse_if(k.shape[axis] != v.shape[axis], "keys and values differ in B, H or L");
    refuse_if(k.dtype != v.dtype, "keys and values of two dtypes");
    refuse_if(k.columns() < 1 || (phase == "decode" && k.columns() != 1), "an append of so many positions");
    if (!keys.bytes) return;
    for (int axis : {0, 1, 3})
      refuse_if(k.shape[axis] != keys.shape[axis] || v.shape[axis] != values.shape[axis], "it holds other shapes");
    refuse_if(k.dtype != keys.dtype, "it holds another dtype");
  }
};

// ---- What is shown -------------------------------------------------------------------------------------------------

static string number(Int n) { return std::to_string(n); }

static string tensor(const string& dtype, const Columns& shape, const Bytes& bytes) {
  const string lengths = joined(shape, number);
  return R"({"dtype":")" + dtype + R"(","shape":[)" + lengths + R"(],"base64":")" + to_base64(bytes) + R"("})";
}
static string shown(const Plane& keys, const Plane& values) {
  return R"("keys":)" + tensor(keys.dtype, keys.shape, *keys.bytes) +
         R"(,"values":)" + tensor(values.dtype, values.shape, *values.bytes);
}
static string shown(const Mask& mask) {
  if (mask.kind != "array") return quote(mask.kind);
  Bytes bytes;
  for (const Columns& row : mask.rows) bytes.insert(bytes.end(), row.begin(), row.end());
  return tensor("bool", {Int(mask.rows.size()), Int(mask.rows[0].size())}, bytes);
}
static string shown(const Read& read) {
  return R"("read":{)" + shown(read.keys, read.values) + R"(,"mask":)" + shown(read.mask) + "}";
}
static string shown(const Cache& c) {
  const auto able = [&](Int n) { return string(c.can_trim(n) ? "true" : "false"); };
  const Int token = c.keys.bytes ? c.keys.shape[1] * (c.keys.width() + c.values.width()) : 0;
  const Int bytes = c.keys.bytes ? Int(c.keys.bytes->size() + c.values.bytes->size()) : 0;
  const string ring = "ring(window=" + number(c.window) + ",sinks=" + number(c.sinks) + ")";
  return R"("state":{"offset":)" + number(c.offset) + R"(,"size":)" + number(std::min(c.offset, c.window)) +
         R"(,"columns":)" + number(c.columns) + R"(,"nbytes":)" + number(bytes) +
         R"(,"bytes_per_token":)" + number(token) + R"(,"identity":)" + quote(c.ring ? ring : "full") +
         R"(,"write_index":)" + number(c.write_index) + R"(,"storage":"dense","can_trim":[)" +
         joined(range(0, c.offset + 2), able) + "]" + (c.keys.bytes ? "," + shown(c.keys, c.values) : "") + "}";
}

// ---- Calls and messages --------------------------------------------------------------------------------------------

static std::map<string, std::shared_ptr<Cache>> caches;
static std::map<string, string> handed;  // reads and masks that have a name, as they were shown
static bool poison = false;

static Plane given(const Json& body) {
  Columns shape;
  for (const Json& length : body.at("shape").items) shape.push_back(length.integer());
  return Plane(body.word("dtype"), shape, from_base64(body.word("base64")));
}
static string append(Cache& cache, const Json& call, const Json& tensors) {
  Plane keys = given(tensors.at("keys")), values = given(tensors.at("values"));
  const Read read = cache.append(keys, values, call.word("call"), call.flag("array"));
  for (Plane* mine : {&keys, &values})  // the caller goes on with its arrays
    if (poison) std::fill(mine->bytes->begin(), mine->bytes->end(), 0x7f);
  if (call.has("as")) handed[call.word("as")] = shown(read);
  return shown(cache) + "," + shown(read);
}
static string apply(const Json& call, const Json& message) {
  const string &verb = call.word("call"), &on = call.word("on");
  if (verb == "drop") return refuse_if(!handed.erase(on) && !caches.erase(on), on + " is nothing"), "";
  if (handed.count(on) && (verb == "look" || verb == "attend")) return handed[on];
  refuse_if(!caches.count(on), on + " is no cache");
  Cache& cache = *caches[on];
  if (verb == "decode" || verb == "window") return append(cache, call, message.at("tensors"));
  if (verb == "look") return shown(cache);
  if (verb == "reset") return cache.reset(), shown(cache);
  if (verb == "trim") return cache.trim(call.at("n")), shown(cache) + R"(,"answer":)" + call.word("n");
  if (verb == "clone") return shown(*(caches[call.word("as")] = std::make_shared<Cache>(cache.clone())));
  if (verb != "mask") throw Unsupported("there is no call " + verb);
  const Mask mask = cache.mask(call.at("length").integer(), call.word("phase"), call.flag("array"));
  if (call.has("as")) handed[call.word("as")] = mask.rows.empty() ? "" : R"("arrays":{"mask":)" + shown(mask) + "}";
  return shown(cache) + R"(,"mask":)" + shown(mask);
}
static const char* const HELLO =
    R"("hello":{"protocol":1,"name":"kvlaw-cpp","kinds":["full","ring"],"capabilities":["phases","mask","as_array",)"
    R"("planes","columns","size","nbytes","bytes_per_token","identity","storage","trim","can_trim","clone","reset",)"
    R"("sinks"]})";

static string answer(const Json& message) {
  if (message.has("hello")) return HELLO;
  if (message.has("call")) return apply(message.at("call"), message);
  if (!message.has("open")) throw Unsupported("a message that there is not");
  caches.clear(), handed.clear();
  poison = message.at("open").flag("poison");
  return shown(*(caches["c0"] = std::make_shared<Cache>(message.at("open"))));
}
static string answered(const Json& message) {
  try {
    const string seen = answer(message);
    return R"("outcome":"ok")" + (seen.empty() ? "" : "," + seen);
  } catch (const Refusal& error) {
    return R"("outcome":"refused","message":)" + quote(error.what());
  } catch (const Unsupported& error) {
    return R"("outcome":"unsupported","message":)" + quote(error.what());
  } catch (const std::exception& error) {
    return R"("outcome":"error","message":)" + quote(error.what());
  }
}

int main(int count, char** words) {
  for (const char* fault : {"wrap-early", "trim-after-wrap", "shared-clone"})
    if (std::count(words + 1, words + count, string("--fault=") + fault)) faults.insert(fault);
  if (int(faults.size()) != count - 1) {
    std::cerr << "there is --fault=NAME, with wrap-early, trim-after-wrap or shared-clone\n";
    return 2;
  }
  for (string line; std::getline(std::cin, line);) {
    const Json message = Parser(line).value();
    if (message.has("bye")) break;
    std::cout << R"({"id":)" << message.word("id") << "," << answered(message) << "}" << std::endl;  // endl flushes
  }
}