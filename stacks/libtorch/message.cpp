// SPDX-License-Identifier: Apache-2.0
#include "message.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>

namespace plumb {

RequestError refused(const std::string &kind, const std::string &reason) {
    return RequestError("refused", reason, kind);
}

RequestError invalid(const std::string &reason) {
    return RequestError("invalid", reason);
}

// ---------------------------------------------------------------------------- members
template <typename T>
static const T &need(const Json &message, const std::string &name, const char *what) {
    const auto *value = message[name].get<T>();
    if (!value) throw invalid("\"" + name + "\": expected " + what);
    return *value;
}

const std::string &need_text(const Json &message, const std::string &name) {
    return need<std::string>(message, name, "a text");
}

std::string text_or(const Json &message, const std::string &name, const std::string &fallback) {
    return message[name].is_null() ? fallback : need_text(message, name);
}

bool bool_or(const Json &message, const std::string &name, bool fallback) {
    return message[name].is_null() ? fallback : need<bool>(message, name, "true or false");
}

double number_or(const Json &message, const std::string &name, double fallback) {
    if (message[name].is_null()) return fallback;
    if (const auto *n = message[name].get<int64_t>()) return static_cast<double>(*n);
    return need<double>(message, name, "a number");
}

int64_t need_count(const Json &message, const std::string &name, int64_t low, int64_t high) {
    const auto value = need<int64_t>(message, name, "a whole number");
    if (value < low || value > high) {
        throw invalid("\"" + name + "\": expected " + std::to_string(low) + " to " +
                      std::to_string(high) + ", found " + std::to_string(value));
    }
    return value;
}

std::vector<int64_t> need_counts(const Json &message, const std::string &name) {
    std::vector<int64_t> counts;
    for (const auto &json : need<JsonList>(message, name, "a list")) {
        const auto *count = json.get<int64_t>();
        if (!count) throw invalid("\"" + name + "\": expected whole numbers");
        counts.push_back(*count);
    }
    return counts;
}

// ---------------------------------------------------------------------------- messages
static void close_on_exec(int fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

Channel::Channel(int descriptor) : fd(descriptor) {
    close_on_exec(fd);
}

bool Channel::read_some() {
    static char chunk[65536];
    ssize_t n;
    do {
        n = recv(fd, chunk, sizeof chunk, 0);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) return false;
    for (const char *p = chunk, *end = chunk + n; p < end;) {
        const auto *newline =
            static_cast<const char *>(memchr(p, '\n', static_cast<size_t>(end - p)));
        const char *stop = newline ? newline : end;
        // A line without end must not fill the memory: it is read over and then complained of.
        if (partial.size() + static_cast<size_t>(stop - p) > MAX_LINE_BYTES) {
            too_long = true;
            partial.clear();
        }
        if (!too_long) partial.append(p, stop);
        if (newline) {
            lines.push_back({std::move(partial), too_long});
            partial.clear();
            too_long = false;
        }
        p = stop + (newline ? 1 : 0);
    }
    return true;
}

bool Channel::receive(Json &out) {
    while (lines.empty()) {
        if (!read_some()) return false;
    }
    const Line line = std::move(lines.front());
    lines.pop_front();
    if (line.too_long) throw invalid("a message is too long");
    try {
        out = JsonParser(line.text).parse();
    } catch (const std::runtime_error &error) {
        throw invalid(error.what());
    }
    if (!out.get<JsonObject>()) throw invalid("expected a JSON object");
    return true;
}

void Channel::send(const Json &message) {
    std::string text;
    write_json(message, text);
    text += '\n';
    for (size_t done = 0; done < text.size();) {
        const ssize_t n = ::send(fd, text.data() + done, text.size() - done, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) _exit(0); // The caller has gone.
        done += static_cast<size_t>(n);
    }
}

bool Channel::cancelled() {
    for (pollfd p = {fd, POLLIN, 0}; poll(&p, 1, 0) > 0;) {
        if (!read_some()) return true;
    }
    const auto found = std::find_if(lines.begin(), lines.end(), [](const Line &line) {
        try {
            const Json message = JsonParser(line.text).parse();
            const auto *type = message["type"].get<std::string>();
            return type && *type == "cancel";
        } catch (const std::runtime_error &) {
            return false;
        }
    });
    if (found == lines.end()) return false;
    lines.erase(found);
    return true;
}

// ---------------------------------------------------------------------------- memory
static constexpr int64_t ALIGN_BYTES = 64;

Inputs::Inputs(int descriptor) : fd(descriptor) {
    close_on_exec(fd);
}

const std::byte *Inputs::place(int64_t offset, int64_t size_bytes) {
    if (offset < 0 || offset % ALIGN_BYTES) {
        throw invalid("offset " + std::to_string(offset) + ": expected a multiple of 64");
    }
    if (size_bytes > length || offset > length - size_bytes) {
        struct stat info;
        if (fstat(fd, &info) != 0 || size_bytes > info.st_size ||
            offset > info.st_size - size_bytes) {
            throw invalid("a tensor ends beyond the inputs");
        }
        if (base) munmap(const_cast<std::byte *>(base), static_cast<size_t>(length));
        void *map = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ, MAP_SHARED, fd, 0);
        base = map == MAP_FAILED ? nullptr : static_cast<const std::byte *>(map);
        length = base ? info.st_size : 0;
        if (!base) throw RequestError("internal", "the inputs cannot be mapped");
    }
    return base + offset;
}

Outputs::Outputs(int descriptor) : fd(descriptor) {
    close_on_exec(fd);
}

std::byte *Outputs::place(int64_t size_bytes, int64_t &offset) {
    offset = (used + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
    used = offset + size_bytes;
    if (used > length) {
        // It can only grow, and what was placed before stays where it is: old maps are kept.
        const int64_t wanted = std::max({used, 2 * length, int64_t{1} << 20});
        void *map = ftruncate(fd, wanted) != 0 ? MAP_FAILED
                                               : mmap(nullptr, static_cast<size_t>(wanted),
                                                      PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED) throw RequestError("oom", "no room for the results");
        base = static_cast<std::byte *>(map);
        length = wanted;
    }
    return base + offset;
}

// ---------------------------------------------------------------------------- facts
int64_t status_bytes(const char *key) {
    std::ifstream file("/proc/self/status");
    for (std::string line; std::getline(file, line);) {
        if (line.rfind(std::string(key) + ":", 0) == 0) {
            return std::strtoll(line.c_str() + std::strlen(key) + 1, nullptr, 10) * 1024;
        }
    }
    return -1;
}

Json bytes_or_null(int64_t bytes) {
    return bytes < 0 ? Json(nullptr) : Json(bytes);
}

std::string one_line(const std::string &text) {
    static constexpr size_t LIMIT = 600;
    std::string out;
    for (const char c : text.substr(0, text.find("\nException raised from"))) {
        const bool blank = static_cast<unsigned char>(c) <= ' ';
        if (!blank)
            out += c;
        else if (!out.empty() && out.back() != ' ')
            out += ' ';
    }
    while (!out.empty() && out.back() == ' ') out.pop_back();
    size_t end = std::min(out.size(), LIMIT);
    // Half a character is no UTF-8, and the answer no JSON.
    while (end < out.size() && end && (out[end] & 0xc0) == 0x80) end--;
    return out.substr(0, end);
}

} // namespace plumb
