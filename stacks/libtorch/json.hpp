// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259), as much of it as messages and the headers of weights need: a value, a parser
// that throws std::runtime_error with the place, and text on one line.
#pragma once
#include <cerrno>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace plumb {

struct Json;
using JsonList = std::vector<Json>;
using JsonObject = std::map<std::string, Json>;

struct Json {
    std::variant<std::nullptr_t, bool, int64_t, double, std::string, JsonList, JsonObject> value;

    Json() : value(nullptr) {}
    Json(std::nullptr_t) : value(nullptr) {}
    Json(bool b) : value(b) {}
    Json(int n) : value(int64_t{n}) {}
    Json(int64_t n) : value(n) {}
    Json(double d) : value(d) {}
    Json(const char *text) : value(std::string(text)) {}
    Json(std::string text) : value(std::move(text)) {}
    Json(JsonList list) : value(std::move(list)) {}
    Json(JsonObject object) : value(std::move(object)) {}

    template <typename T> const T *get() const { return std::get_if<T>(&value); }
    bool is_null() const { return get<std::nullptr_t>(); }
    // The member of an object; null where there is none.
    const Json &operator[](const std::string &key) const {
        static const Json none;
        const auto *object = get<JsonObject>();
        if (!object) return none;
        const auto found = object->find(key);
        return found == object->end() ? none : found->second;
    }
};

inline void write_json_text(const std::string &text, std::string &out) {
    out += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            out += '\\', out += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            char escape[8];
            std::snprintf(escape, sizeof escape, "\\u%04x", c);
            out += escape;
        } else {
            out += c;
        }
    }
    out += '"';
}

inline void write_json(const Json &json, std::string &out) {
    if (json.is_null()) {
        out += "null";
    } else if (const auto *b = json.get<bool>()) {
        out += *b ? "true" : "false";
    } else if (const auto *n = json.get<int64_t>()) {
        out += std::to_string(*n);
    } else if (const auto *d = json.get<double>()) {
        char number[40];
        std::snprintf(number, sizeof number, "%.17g", *d);
        out += std::isfinite(*d) ? number : "null";
    } else if (const auto *text = json.get<std::string>()) {
        write_json_text(*text, out);
    } else if (const auto *list = json.get<JsonList>()) {
        out += '[';
        for (size_t i = 0; i < list->size(); i++) {
            if (i) out += ',';
            write_json((*list)[i], out);
        }
        out += ']';
    } else {
        out += '{';
        bool first = true;
        for (const auto &[key, member] : *json.get<JsonObject>()) {
            if (!first) out += ',';
            first = false;
            write_json_text(key, out);
            out += ':';
            write_json(member, out);
        }
        out += '}';
    }
}

class JsonParser {
  public:
    explicit JsonParser(std::string_view given) : text(given) {}

    Json parse() {
        Json json = parse_value(0);
        skip_blanks();
        if (at != text.size()) fail("expected the end");
        return json;
    }

  private:
    static constexpr int MAX_DEPTH = 64;
    std::string_view text;
    size_t at = 0;

    [[noreturn]] void fail(const char *what) const {
        throw std::runtime_error("JSON, byte " + std::to_string(at) + ": " + what);
    }
    void skip_blanks() {
        while (at < text.size() && std::string_view(" \t\r\n").find(text[at]) != text.npos) at++;
    }
    bool take(char c) {
        skip_blanks();
        if (at >= text.size() || text[at] != c) return false;
        at++;
        return true;
    }
    bool take_word(std::string_view word) {
        if (text.substr(at, word.size()) != word) return false;
        at += word.size();
        return true;
    }

    Json parse_value(int depth) {
        if (depth > MAX_DEPTH) fail("nested too deeply");
        skip_blanks();
        if (at >= text.size()) fail("expected a value");
        if (text[at] == '{') return parse_object(depth);
        if (text[at] == '[') return parse_list(depth);
        if (text[at] == '"') return parse_text();
        if (take_word("null")) return nullptr;
        if (take_word("true")) return true;
        if (take_word("false")) return false;
        return parse_number();
    }

    Json parse_object(int depth) {
        JsonObject object;
        at++;
        if (take('}')) return object;
        do {
            skip_blanks();
            if (at >= text.size() || text[at] != '"') fail("expected a name");
            std::string key = parse_text();
            if (!take(':')) fail("expected ':'");
            object[std::move(key)] = parse_value(depth + 1);
        } while (take(','));
        if (!take('}')) fail("expected ',' or '}'");
        return object;
    }

    Json parse_list(int depth) {
        JsonList list;
        at++;
        if (take(']')) return list;
        do {
            list.push_back(parse_value(depth + 1));
        } while (take(','));
        if (!take(']')) fail("expected ',' or ']'");
        return list;
    }

    Json parse_number() {
        const std::string number(
            text.substr(at, text.find_first_not_of("+-.0123456789eE", at) - at));
        const char first = number.empty() ? '\0' : number[0];
        if (first != '-' && (first < '0' || first > '9')) fail("expected a value");
        char *end;
        Json json;
        errno = 0;
        if (number.find_first_of(".eE") == number.npos) {
            json = static_cast<int64_t>(std::strtoll(number.c_str(), &end, 10));
        } else {
            json = std::strtod(number.c_str(), &end);
        }
        if (*end || errno) fail("a number out of range, or none");
        at += number.size();
        return json;
    }

    std::string parse_text() {
        std::string out;
        for (at++; at < text.size() && text[at] != '"'; at++) {
            if (static_cast<unsigned char>(text[at]) < 0x20) fail("a control character");
            if (text[at] != '\\') {
                out += text[at];
                continue;
            }
            if (++at >= text.size()) break;
            static constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
            const size_t i = from.find(text[at]);
            if (i != from.npos) {
                out += to[i];
            } else if (text[at] == 'u') {
                append_utf8(parse_code_point(), out);
            } else {
                fail("an unknown escape");
            }
        }
        if (at >= text.size()) fail("a text without end");
        at++;
        return out;
    }

    uint32_t parse_hex4() {
        uint32_t code = 0;
        for (int i = 0; i < 4; i++) {
            const char c = ++at < text.size() ? text[at] : '\0';
            const char *digits = "0123456789abcdef";
            const char *found = c ? std::char_traits<char>::find(digits, 16, c | 0x20) : nullptr;
            if (!found) fail("expected four hexadecimal digits");
            code = code * 16 + static_cast<uint32_t>(found - digits);
        }
        return code;
    }

    // Two escapes make one character beyond the first 65536.
    uint32_t parse_code_point() {
        const uint32_t high = parse_hex4();
        if (high < 0xd800 || high > 0xdbff || text.substr(at + 1, 2) != "\\u") return high;
        at += 2;
        return 0x10000 + ((high - 0xd800) << 10) + (parse_hex4() - 0xdc00);
    }

    static void append_utf8(uint32_t code, std::string &out) {
        if (code < 0x80) {
            out += static_cast<char>(code);
            return;
        }
        const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        static constexpr uint32_t first[] = {0, 0xc0, 0xe0, 0xf0};
        out += static_cast<char>(first[more] | code >> 6 * more);
        for (int i = more - 1; i >= 0; i--) out += static_cast<char>(0x80 | (code >> 6 * i & 0x3f));
    }
};

} // namespace plumb
