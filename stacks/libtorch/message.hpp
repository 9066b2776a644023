// SPDX-License-Identifier: Apache-2.0
// The worker's side of stacks/protocol.md without any framework: messages, shared memory, errors.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <vector>

#include "json.hpp"

namespace plumb {

// What becomes an `error` answer; `kind` is there for refusals alone.
struct RequestError : std::runtime_error {
    std::string code, kind;
    RequestError(std::string code_, const std::string &reason, std::string kind_ = "")
        : std::runtime_error(reason), code(std::move(code_)), kind(std::move(kind_)) {}
};
RequestError refused(const std::string &kind, const std::string &reason);
RequestError invalid(const std::string &reason);

// Members of a request, checked; they throw `invalid`.
const std::string &need_text(const Json &message, const std::string &name);
std::string text_or(const Json &message, const std::string &name, const std::string &fallback);
bool bool_or(const Json &message, const std::string &name, bool fallback);
double number_or(const Json &message, const std::string &name, double fallback);
int64_t need_count(const Json &message, const std::string &name, int64_t low, int64_t high);
std::vector<int64_t> need_counts(const Json &message, const std::string &name);

class Channel {
  public:
    explicit Channel(int descriptor);
    // False at the end of the stream; throws `invalid` for what is no message.
    bool receive(Json &out);
    void send(const Json &message);
    bool cancelled(); // whether the caller has asked to end the request under way, or has gone

  private:
    static constexpr size_t MAX_LINE_BYTES = 16 << 20;
    struct Line {
        std::string text;
        bool too_long;
    };
    bool read_some();
    int fd;
    std::string partial;
    bool too_long = false;
    std::deque<Line> lines;
};

// The caller's memory, read-only.
class Inputs {
  public:
    explicit Inputs(int descriptor);
    const std::byte *place(int64_t offset, int64_t size_bytes); // throws `invalid`

  private:
    int fd;
    const std::byte *base = nullptr;
    int64_t length = 0;
};

// What an answer names.
class Outputs {
  public:
    explicit Outputs(int descriptor);
    void begin() { used = 0; }
    // `size_bytes` free bytes, writable as long as the process lives, and their offset.
    std::byte *place(int64_t size_bytes, int64_t &offset);

  private:
    int fd;
    std::byte *base = nullptr;
    int64_t used = 0, length = 0;
};

int64_t status_bytes(const char *key); // of /proc/self/status; -1: unknown
Json bytes_or_null(int64_t bytes);     // below 0: null
std::string one_line(const std::string &text);

} // namespace plumb
