// SPDX-License-Identifier: Apache-2.0
// libtorch: PyTorch's C++ API without Python, as a worker of stacks/protocol.md.
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include <torch/version.h>

#include "session.hpp"

namespace plumb {

static constexpr int64_t LONG_NS = 100000000; // longer iterations leave time to look for `cancel`

static inline int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

class Worker {
  public:
    Worker(Channel &channel_, Inputs &inputs_, Outputs &outputs_)
        : channel(channel_), inputs(inputs_), outputs(outputs_) {}

    void serve() {
        for (bool open = true; open;) {
            Json request;
            Json answer;
            try {
                if (!channel.receive(request)) return;
                arrived_ns = now_ns();
                const auto *type = request["type"].get<std::string>();
                if (type && *type == "cancel") continue; // Nothing is under way.
                outputs.begin();
                answer = handle(type ? *type : "", request);
                open = !type || *type != "bye";
            } catch (const RequestError &error) {
                answer = failure(error.code, error.what(), error.kind);
            } catch (const c10::OutOfMemoryError &error) {
                answer = failure("oom", error.what(), "");
            } catch (const std::bad_alloc &error) {
                answer = failure("oom", error.what(), "");
            } catch (const std::exception &error) {
                std::fprintf(stderr, "%s\n", error.what());
                const bool memory = std::strstr(error.what(), "can't allocate memory");
                answer = failure(memory ? "oom" : "internal", error.what(), "");
            }
            auto object = *answer.get<JsonObject>();
            object["id"] = request["id"];
            channel.send(object);
        }
    }

  private:
    static Json failure(const std::string &code, const std::string &reason,
                        const std::string &kind) {
        JsonObject answer = {{"type", "error"}, {"code", code}, {"reason", one_line(reason)}};
        if (!kind.empty()) answer["kind"] = kind;
        return answer;
    }

    Json handle(const std::string &type, const Json &request) {
        if (type == "hello") return hello(request);
        if (type == "load") return load(request);
        if (type == "batches") return batches(request);
        if (type == "epoch") return epoch(request);
        if (type == "batch") return batch(request);
        if (type == "epoch_end") return epoch_end();
        if (type == "prove") return prove(request);
        if (type == "sample") return sample(request);
        if (type == "state") return state();
        if (type == "ran") return ran();
        if (type == "memory") return memory();
        if (type == "bye") return JsonObject{{"type", "ok"}};
        throw RequestError("unsupported", "no request of type \"" + type.substr(0, 40) + "\"");
    }

    Json hello(const Json &request) {
        const auto *protocol = request["protocol"].get<int64_t>();
        if (!protocol || *protocol != 1) {
            throw RequestError("unsupported", "this worker speaks protocol 1");
        }
        const Json able = capabilities();
        libraries_rss_bytes = status_bytes("VmRSS");
        return JsonObject{{"type", "hello"},
                          {"protocol", 1},
                          {"stack", "libtorch"},
                          {"versions", JsonObject{{"libtorch", TORCH_VERSION}}},
                          {"capabilities", able}};
    }

    Json load(const Json &request) {
        session.reset();
        in_epoch = false;
        session = std::make_unique<Session>(parse_case(request, inputs), inputs);
        session->finish();
        const int64_t exported = session->export_ns();
        const int64_t spent = now_ns() - arrived_ns - (exported > 0 ? exported : 0);
        return JsonObject{{"type", "loaded"},
                          {"load_ns", spent},
                          {"compile_ns", nullptr},
                          {"export_ns", exported < 0 ? Json(nullptr) : Json(exported)}};
    }

    Json batches(const Json &request) {
        need_session().take(slots(request, "slots"));
        return JsonObject{{"type", "ok"}};
    }

    Json prove(const Json &request) {
        auto &s = need_session();
        const auto which = slots(request, "batches");
        if (bool_or(request, "trace", false)) {
            throw RequestError("unsupported", "this stack cannot trace");
        }
        JsonList tensors;
        s.reset();
        for (size_t i = 0; i < which.size(); i++) {
            const Mode mode(s.given());
            const Outcome out = s.call("latency", which[i])();
            s.finish();
            const auto batch = static_cast<int64_t>(i);
            if (out.loss.defined()) put("loss", out.loss, batch, tensors);
            put(s.output_name(), out.output, batch, tensors);
            if (i == 0 && s.given().training()) put_all(s.gradients(), batch, tensors);
            if (channel.cancelled()) throw RequestError("cancelled", "as asked");
        }
        if (s.given().training()) {
            put_all(s.state(), static_cast<int64_t>(which.size()) - 1, tensors);
            s.reset();
        }
        return JsonObject{{"type", "proof"}, {"tensors", tensors}};
    }

    Json sample(const Json &request) {
        auto &s = need_session();
        const int64_t n = need_count(request, "n", 1, int64_t{1} << 32);
        const auto region = need_text(request, "region");
        if (region != "latency" && region != "queued" && region != "host" && region != "return") {
            throw invalid("sample: no region " + region.substr(0, 20));
        }
        const auto which = slots(request, "batches");
        int64_t check = request["check"].is_null() ? -1 : need_count(request, "check", -1, n - 1);
        if (region == "queued" && check >= 0) check = n - 1;
        if (bool_or(request, "restart", false)) s.reset();
        std::vector<Call> calls;
        for (const int64_t slot : which) calls.push_back(s.call(region, slot));
        const int64_t count = region == "queued" ? 1 : n;
        int64_t offset;
        auto *times = reinterpret_cast<int64_t *>(outputs.place(count * 8, offset));
        std::memset(times, 0, static_cast<size_t>(count) * 8); // touched before it is measured into
        JsonList tensors;
        run(s, region, n, check, calls, which, times, tensors);
        return JsonObject{{"type", "samples"},  {"n", n},
                          {"offset", offset},   {"count", count},
                          {"tensors", tensors}, {"compile_ns", nullptr},
                          {"recompiled", 0}};
    }

    // The timed loop. `out` is overwritten in the timed part, as in anybody's own loop.
    void run(Session &s, const std::string &region, int64_t n, int64_t check,
             const std::vector<Call> &calls, const std::vector<int64_t> &which, int64_t *times,
             JsonList &tensors) {
        const Mode mode(s.given());
        const bool queued = region == "queued", to_return = region == "return";
        Outcome out;
        s.finish();
        int64_t last = now_ns();
        const int64_t first = last;
        for (int64_t i = 0; i < n; i++) {
            const auto &call = calls[static_cast<size_t>(i) % calls.size()];
            const int64_t begin = now_ns();
            out = call();
            if (!queued && !to_return) s.finish();
            const int64_t end = now_ns();
            if (!queued) times[i] = end - begin;
            if (to_return) s.finish();
            if (i == check && !queued) put_outcome(out, which, i, tensors);
            if (end - last > LONG_NS && channel.cancelled()) {
                throw RequestError("cancelled", "as asked");
            }
            last = end;
        }
        if (!queued) return;
        s.finish();
        times[0] = now_ns() - first;
        if (check >= 0) put_outcome(out, which, n - 1, tensors);
    }

    Json epoch(const Json &request) {
        auto &s = need_session();
        if (!s.given().training()) throw invalid("epoch: the case was loaded for inference");
        training = bool_or(request, "train", true);
        s.set_training(training);
        in_epoch = true;
        return JsonObject{{"type", "ok"}};
    }

    Json batch(const Json &request) {
        auto &s = need_session();
        if (!in_epoch) throw invalid("batch: no epoch has begun");
        const auto slots = static_cast<int64_t>(s.given().x.offsets.size());
        const int64_t slot = need_count(request, "slot", 0, slots - 1);
        const int64_t most = s.given().batch;
        const int64_t rows =
            request["rows"].is_null() ? most : need_count(request, "rows", 1, most);
        const auto done = s.stream(slot, rows, training);
        return JsonObject{
            {"type", "done"}, {"ns", done.ns}, {"loss", done.loss_sum}, {"correct", done.correct}};
    }

    Json epoch_end() {
        if (!in_epoch) throw invalid("epoch_end: no epoch has begun");
        need_session().set_training(true);
        in_epoch = false;
        return JsonObject{{"type", "ok"}};
    }

    Json state() {
        auto &s = need_session();
        if (!s.given().training()) throw invalid("state: only training has one");
        JsonList tensors;
        put_all(s.state(), 0, tensors);
        return JsonObject{{"type", "proof"}, {"tensors", tensors}};
    }

    Json ran() {
        auto answer = *need_session().ran().get<JsonObject>();
        answer["type"] = "ran";
        return answer;
    }

    Json memory() {
        return JsonObject{{"type", "memory"},
                          {"rss_bytes", bytes_or_null(status_bytes("VmRSS"))},
                          {"peak_rss_bytes", bytes_or_null(status_bytes("VmHWM"))},
                          {"libraries_rss_bytes", bytes_or_null(libraries_rss_bytes)},
                          {"planned_bytes", nullptr},
                          {"devices", session ? session->devices_memory() : Json(JsonList{})}};
    }

    // Inference without gradients, for the whole of a block.
    struct Mode {
        std::unique_ptr<c10::InferenceMode> inference;
        std::unique_ptr<torch::NoGradGuard> no_grad;
        explicit Mode(const Case &c) {
            if (c.training()) return;
            if (c.inference_mode)
                inference = std::make_unique<c10::InferenceMode>();
            else
                no_grad = std::make_unique<torch::NoGradGuard>();
        }
    };

    Session &need_session() {
        if (!session) throw invalid("nothing is loaded");
        return *session;
    }

    std::vector<int64_t> slots(const Json &request, const std::string &name) {
        const auto which = need_counts(request, name);
        const auto count = static_cast<int64_t>(need_session().given().x.offsets.size());
        for (const int64_t slot : which) {
            if (slot < 0 || slot >= count) throw invalid("\"" + name + "\": no such batch");
        }
        if (which.empty()) throw invalid("\"" + name + "\": expected batches, found none");
        return which;
    }

    void put(const std::string &name, const torch::Tensor &tensor, int64_t batch,
             JsonList &tensors) {
        static const std::map<torch::ScalarType, const char *> names = {
            {torch::kFloat, "f32"}, {torch::kDouble, "f64"}, {torch::kHalf, "f16"},
            {torch::kLong, "i64"},  {torch::kInt, "i32"},    {torch::kShort, "i16"},
            {torch::kChar, "i8"},   {torch::kByte, "u8"},    {torch::kBool, "bool"}};
        const auto dense = on_host(tensor);
        const auto dtype = names.find(dense.scalar_type());
        if (dtype == names.end()) {
            throw refused("dtype", name + ": " + torch::toString(dense.scalar_type()) +
                                       ": the protocol has no such type");
        }
        const auto size = static_cast<int64_t>(dense.nbytes());
        int64_t offset;
        std::memcpy(outputs.place(size, offset), dense.data_ptr(), static_cast<size_t>(size));
        JsonList shape;
        for (const int64_t extent : dense.sizes()) shape.push_back(extent);
        tensors.push_back(JsonObject{{"name", name},
                                     {"batch", batch},
                                     {"dtype", dtype->second},
                                     {"shape", shape},
                                     {"offset", offset}});
    }

    void put_all(const Named &named, int64_t batch, JsonList &tensors) {
        for (const auto &[name, tensor] : named) put(name, tensor, batch, tensors);
    }

    void put_outcome(const Outcome &out, const std::vector<int64_t> &which, int64_t i,
                     JsonList &tensors) {
        const int64_t slot = which[static_cast<size_t>(i) % which.size()];
        if (out.loss.defined()) put("loss", out.loss, slot, tensors);
        put(need_session().output_name(), out.output, slot, tensors);
    }

    Channel &channel;
    Inputs &inputs;
    Outputs &outputs;
    std::unique_ptr<Session> session;
    bool in_epoch = false, training = false;
    int64_t libraries_rss_bytes = -1, arrived_ns = 0;
};

} // namespace plumb

static int descriptor(const char *variable, int fallback) {
    const char *text = std::getenv(variable);
    return text ? std::atoi(text) : fallback;
}

int main() {
    plumb::Channel channel(descriptor("PLUMB_FD", 3));
    plumb::Inputs inputs(descriptor("PLUMB_IN_FD", 4));
    plumb::Outputs outputs(descriptor("PLUMB_OUT_FD", 5));
    plumb::Worker(channel, inputs, outputs).serve();
    std::fflush(stdout);
    // Without the libraries' own endings, which take long and may hang.
    _exit(0);
}
