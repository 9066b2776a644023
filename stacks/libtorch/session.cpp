// SPDX-License-Identifier: Apache-2.0
// The batches lie where the model reads them, in its dtype and layout, before any clock runs; the
// calls of region `host` begin and end in ordinary host memory instead.
#include "session.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <time.h>

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/Parallel.h>
#include <ATen/autocast_mode.h>
#include <torch/cuda.h>
#include <torch/nn/functional/loss.h>
#include <torch/utils.h>

#include "weights.hpp"

namespace plumb {

static const std::map<std::string, torch::ScalarType> dtypes = {{"f32", torch::kFloat},
                                                                {"bf16", torch::kBFloat16},
                                                                {"f16", torch::kHalf},
                                                                {"f64", torch::kDouble},
                                                                {"i64", torch::kLong}};

static std::string name_of(torch::ScalarType dtype) {
    for (const auto &[name, value] : dtypes) {
        if (value == dtype) return name;
    }
    return torch::toString(dtype);
}

// ---------------------------------------------------------------------------- cases
Json capabilities() {
    const auto cards = static_cast<int64_t>(torch::cuda::device_count());
    JsonList devices = {"cpu"}, math = {"f32"};
    if (cards) devices.push_back("cuda"), math.push_back("tf32");
    for (int64_t i = 0; i < cards; i++) devices.push_back("cuda:" + std::to_string(i));
    const JsonList off_on = {false, true}, on_off = {true, false};
    return JsonObject{{"tasks", JsonList{"infer", "train"}},
                      {"devices", devices},
                      {"dtypes", JsonList{"f32", "bf16", "f16", "f64"}},
                      {"math", math},
                      {"autocast", JsonList{"bf16", "f16"}},
                      {"regions", JsonList{"latency", "queued", "host", "return"}},
                      {"models", nullptr},
                      {"files", JsonList{"torchscript"}},
                      {"settings", JsonObject{{"channels_last", off_on},
                                              {"inference_mode", on_off},
                                              {"cudnn_benchmark", off_on}}},
                      {"trace", false},
                      {"epoch", true},
                      {"group", false}};
}

static void check_able(const std::string &kind, const std::string &value, const char *list) {
    static const Json able = capabilities();
    for (const auto &word : *able[list].get<JsonList>()) {
        if (*word.get<std::string>() == value) return;
    }
    throw refused(kind, kind + " " + value + ": this stack has no such thing");
}

static bool setting(const Json &settings, const std::string &name, bool fallback) {
    const auto &value = settings[name];
    if (value.is_null()) return fallback;
    if (!value.get<bool>()) throw refused("settings", name + ": expected true or false");
    return *value.get<bool>();
}

static Case::Input parse_input(const Json &request, const std::string &name, int64_t batch,
                               Inputs &inputs) {
    const auto *list = request["inputs"].get<JsonList>();
    if (!list) throw invalid("load: \"inputs\" is missing");
    for (const auto &json : *list) {
        const auto *found = json["name"].get<std::string>();
        if (!found || *found != name) continue;
        Case::Input input = {need_text(json, "dtype"), need_counts(json, "shape"),
                             need_counts(json, "offsets")};
        const auto dtype = dtypes.find(input.dtype);
        if (dtype == dtypes.end()) throw invalid("load: an input of dtype " + input.dtype);
        if (input.shape.empty() || input.shape[0] != batch || input.offsets.empty()) {
            throw invalid("load: input \"" + name + "\" is not a batch of " +
                          std::to_string(batch));
        }
        auto size = static_cast<int64_t>(torch::elementSize(dtype->second));
        for (const int64_t extent : input.shape) {
            if (extent < 1 || size > (int64_t{1} << 46) / extent) {
                throw invalid("load: input \"" + name + "\" has an impossible shape");
            }
            size *= extent;
        }
        for (const int64_t offset : input.offsets) inputs.place(offset, size);
        return input;
    }
    throw invalid("load: no input \"" + name + "\"");
}

static void parse_settings(const Json &request, Case &c) {
    const Json &settings = request["settings"];
    static const Json able = capabilities();
    if (const auto *given = settings.get<JsonObject>()) {
        for (const auto &[name, value] : *given) {
            if (able["settings"][name].is_null()) throw refused("settings", "no setting " + name);
        }
    }
    c.layout = text_or(request, "layout", "default");
    if (c.layout != "default" && c.layout != "nchw" && c.layout != "nhwc") {
        throw invalid("load: \"layout\": expected default, nchw or nhwc");
    }
    c.channels_last = setting(settings, "channels_last", false) || c.layout == "nhwc";
    if (c.channels_last && c.layout == "nchw") {
        throw refused("settings", "layout nchw and channels_last contradict each other");
    }
    c.inference_mode = setting(settings, "inference_mode", true);
    c.cudnn_benchmark = setting(settings, "cudnn_benchmark", false);
}

Case parse_case(const Json &request, Inputs &inputs) {
    Case c = {};
    c.model = need_text(request, "model");
    c.task = need_text(request, "task");
    c.weights = need_text(request, "weights");
    c.batch = need_count(request, "batch", 1, 1 << 24);
    c.size = need_count(request, "size", 1, 1 << 16);
    c.classes = need_count(request, "classes", 1, 1 << 24);
    c.threads = static_cast<int>(need_count(request, "threads", 1, 4096));
    c.dtype = text_or(request, "dtype", "f32");
    c.math = text_or(request, "math", "f32");
    c.autocast = text_or(request, "autocast", "");
    c.dropout = text_or(request, "dropout", "on") != "off";
    c.log_probabilities = bool_or(request, "log_probabilities", false);
    c.optimizer = request["optimizer"];
    const auto *devices = request["devices"].get<JsonList>();
    if (!devices || devices->size() != 1 || !(*devices)[0].get<std::string>()) {
        throw refused("device", "expected one device");
    }
    c.device = *(*devices)[0].get<std::string>();
    check_able("task", c.task, "tasks");
    check_able("device", c.device, "devices");
    check_able("dtype", c.dtype, "dtypes");
    check_able("math", c.math, "math");
    if (!c.autocast.empty()) check_able("autocast", c.autocast, "autocast");
    if (!request["region"].is_null()) check_able("region", need_text(request, "region"), "regions");
    if (c.math == "tf32" && c.device == "cpu") {
        throw refused("math", "the processor has no tf32");
    }
    if (!c.autocast.empty() && c.dtype != "f32") {
        throw refused("autocast", "autocast mixes with f32, not with " + c.dtype);
    }
    parse_settings(request, c);
    c.file = text_or(request, "file", "");
    if (!c.file.empty() && !c.file.ends_with(".pt")) {
        throw refused("model", "this stack runs no ONNX files");
    }
    if (!c.file.empty() && c.training()) throw refused("task", "a file is only inferred");
    c.x = parse_input(request, "x", c.batch, inputs);
    if (c.file.empty() && c.x.shape.size() != 4)
        throw invalid("load: input \"x\": expected four dimensions");
    if (c.training()) {
        c.y = parse_input(request, "y", c.batch, inputs);
        if (c.y.offsets.size() != c.x.offsets.size() || c.y.dtype != "i64") {
            throw invalid("load: input \"y\" does not go with \"x\"");
        }
    }
    return c;
}

// ---------------------------------------------------------------------------- building
void Session::configure() const {
    at::set_num_threads(c.threads);
    static const bool once = [] {
        at::set_num_interop_threads(1); // legal once, before the first parallel work
        return true;
    }();
    (void)once;
    at::globalContext().setFloat32MatmulPrecision(c.math == "tf32" ? "high" : "highest");
    at::globalContext().setAllowTF32CuDNN(c.math == "tf32");
    at::globalContext().setBenchmarkCuDNN(c.cudnn_benchmark);
    torch::manual_seed(0);
}

static std::unique_ptr<torch::optim::Optimizer> make_optimizer(
    const std::vector<torch::Tensor> &parameters, const Json &given) {
    namespace optim = torch::optim;
    const auto name = text_or(given, "name", "sgd");
    const double decay = number_or(given, "weight_decay", name == "adamw" ? 0.01 : 0.0);
    if (name == "sgd") {
        return std::make_unique<optim::SGD>(parameters,
                                            optim::SGDOptions(number_or(given, "lr", 0.01))
                                                .momentum(number_or(given, "momentum", 0))
                                                .dampening(number_or(given, "dampening", 0))
                                                .weight_decay(decay)
                                                .nesterov(bool_or(given, "nesterov", false)));
    }
    const auto betas =
        std::make_tuple(number_or(given, "beta1", 0.9), number_or(given, "beta2", 0.999));
    const double lr = number_or(given, "lr", 1e-3), eps = number_or(given, "eps", 1e-8);
    if (name == "adam") {
        return std::make_unique<optim::Adam>(
            parameters, optim::AdamOptions(lr).betas(betas).eps(eps).weight_decay(decay));
    }
    if (name == "adamw") {
        return std::make_unique<optim::AdamW>(
            parameters, optim::AdamWOptions(lr).betas(betas).eps(eps).weight_decay(decay));
    }
    throw invalid("load: no optimizer " + name);
}

Session::Session(Case case_, Inputs &inputs_)
    : c(std::move(case_)), inputs(inputs_), device(c.device), dtype(dtypes.at(c.dtype)),
      format(c.channels_last ? torch::MemoryFormat::ChannelsLast
                             : torch::MemoryFormat::Contiguous) {
    configure();
    if (device.is_cuda() && !device.has_index()) device = torch::Device(torch::kCUDA, 0);
    if (device.is_cuda()) {
        at::accelerator::setDeviceIndex(device.index());
        at::accelerator::resetPeakStats(device.index()); // of the case before
    }
    if (c.file.empty()) model = make_model(c.model, {c.size, c.classes, c.dropout});
    if (!c.file.empty()) {
        freeze_script(c.file);
    } else if (model) {
        build();
    } else if (c.training()) {
        throw refused("model", c.model + " is not written by hand for LibTorch; such models only "
                                         "infer, from TorchScript");
    } else {
        load_script();
    }
    std::vector<int64_t> slots;
    const auto options = torch::TensorOptions(dtype).device(device).memory_format(format);
    for (size_t slot = 0; slot < c.x.offsets.size(); slot++) {
        slots.push_back(static_cast<int64_t>(slot));
        x.push_back(torch::empty(c.x.shape, options));
        host_x.emplace_back();
        if (!c.training()) continue;
        y.push_back(torch::empty(c.y.shape, torch::TensorOptions(torch::kLong).device(device)));
        host_y.emplace_back();
    }
    take(slots);
}

void Session::build() {
    model->to(device);
    // Module::to with a dtype would make numbers of batches float as well.
    auto tensors = model->parameters();
    for (const auto &buffer : model->buffers()) tensors.push_back(buffer);
    for (auto &tensor : tensors) {
        if (!tensor.is_floating_point()) continue;
        auto data = tensor.data().to(dtype);
        tensor.set_data(data.dim() == 4 ? data.contiguous(format) : data);
    }
    model->train(c.training());
    read_weights();
    if (c.training()) optimizer = make_optimizer(model->parameters(), c.optimizer);
}

void Session::read_weights() {
    torch::NoGradGuard guard;
    const auto tensors = read_safetensors(c.weights);
    size_t used = 0;
    const auto copy = [&](const std::string &name, torch::Tensor to) {
        const auto found = tensors.find(name);
        if (found == tensors.end()) {
            if (name.find("num_batches_tracked") == name.npos) {
                throw invalid(c.weights + ": no tensor " + name);
            }
            to.zero_();
            return;
        }
        if (found->second.sizes() != to.sizes()) {
            throw invalid(c.weights + ": " + name + " has another shape than " + c.model +
                          " needs");
        }
        to.copy_(found->second);
        used++;
    };
    for (const auto &item : model->named_parameters()) copy(item.key(), item.value());
    for (const auto &item : model->named_buffers()) copy(item.key(), item.value());
    if (used != tensors.size())
        throw invalid(c.weights + ": more tensors than " + c.model + " has");
}

static constexpr int EXPORT_FOUND_DISK_FULL = 3;

// The path that the exporter of a Python with torch prints; see plumb_stack/exports.py.
static std::string run_exporter(const Json &wanted) {
    std::string text;
    write_json(wanted, text);
    int ends[2];
    if (pipe(ends) != 0) throw RequestError("internal", "no pipe");
    const pid_t child = fork();
    if (child == 0) {
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        execl(PLUMB_PYTHON, PLUMB_PYTHON, "-u", PLUMB_EXPORTER, text.c_str(), nullptr);
        _exit(127);
    }
    close(ends[1]);
    std::string said;
    char chunk[512];
    for (ssize_t n; (n = read(ends[0], chunk, sizeof chunk)) > 0;) {
        said.append(chunk, static_cast<size_t>(n));
    }
    close(ends[0]);
    int status = -1;
    if (child > 0) waitpid(child, &status, 0);
    while (!said.empty() && said.back() == '\n') said.pop_back();
    const auto last = said.substr(said.rfind('\n') == said.npos ? 0 : said.rfind('\n') + 1);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXPORT_FOUND_DISK_FULL) {
        throw RequestError("full", last);
    }
    if (status != 0) {
        throw refused("export", last.empty() ? PLUMB_PYTHON " could not export the model" : last);
    }
    return last;
}

static int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

void Session::load_script() {
    const int64_t begin = now_ns();
    const auto path = run_exporter(JsonObject{{"format", "script"},
                                              {"model", c.model},
                                              {"weights", c.weights},
                                              {"batch", c.batch},
                                              {"size", c.size},
                                              {"classes", c.classes},
                                              {"channels", c.x.shape[1]}});
    exported_ns = now_ns() - begin;
    freeze_script(path);
}

// One tensor in, one tensor out: what is timed is told nothing else of a file.
static void check_ends(const torch::jit::Graph &graph) {
    const auto given = graph.inputs().size() - 1; // behind the module itself
    const auto outputs = graph.outputs();
    if (given == 1 && outputs.size() == 1 &&
        outputs[0]->type()->kind() == c10::TypeKind::TensorType) {
        return;
    }
    throw refused("model", "forward takes " + std::to_string(given) + " values and returns " +
                               (outputs.empty() ? "nothing" : outputs[0]->type()->str()) +
                               ": expected one tensor each");
}

void Session::freeze_script(const std::string &path) {
    try {
        auto module = torch::jit::load(path, device);
        module.eval();
        module.to(device, dtype);
        script = std::make_unique<torch::jit::Module>(torch::jit::freeze(module));
    } catch (const c10::Error &error) {
        const std::string text = error.what_without_backtrace();
        throw refused("model", path + ": " + text.substr(0, text.find('\n')));
    }
    check_ends(*script->get_method("forward").graph());
}

// ---------------------------------------------------------------------------- batches
torch::Tensor Session::given_batch(const Case::Input &input, int64_t slot) const {
    const auto kind = dtypes.at(input.dtype);
    auto size = static_cast<int64_t>(torch::elementSize(kind));
    for (const int64_t extent : input.shape) size *= extent;
    // Read only; from_blob has no type for that.
    auto *place =
        const_cast<std::byte *>(inputs.place(input.offsets[static_cast<size_t>(slot)], size));
    return torch::from_blob(place, input.shape, torch::TensorOptions(kind));
}

void Session::take(const std::vector<int64_t> &slots) {
    torch::NoGradGuard guard;
    for (const int64_t slot : slots) {
        const auto i = static_cast<size_t>(slot);
        x[i].copy_(given_batch(c.x, slot));
        if (host_x[i].defined()) host_x[i].copy_(given_batch(c.x, slot));
        if (!c.training()) continue;
        y[i].copy_(given_batch(c.y, slot));
        if (host_y[i].defined()) host_y[i].copy_(given_batch(c.y, slot));
    }
    finish();
}

// ---------------------------------------------------------------------------- iterations
// Entered anew in every iteration: kept open over many it would keep the casts of weights as well.
struct Mixed {
    torch::DeviceType kind;
    bool on;
    Mixed(const Case &c, torch::Device device) : kind(device.type()), on(!c.autocast.empty()) {
        if (!on) return;
        at::autocast::increment_nesting();
        at::autocast::set_autocast_dtype(kind, dtypes.at(c.autocast));
        at::autocast::set_autocast_enabled(kind, true);
    }
    ~Mixed() {
        if (!on) return;
        at::autocast::set_autocast_enabled(kind, false);
        if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    }
    Mixed(const Mixed &) = delete;
    Mixed &operator=(const Mixed &) = delete;
};

torch::Tensor Session::forward(const torch::Tensor &batch) {
    const Mixed mixed(c, device);
    if (model) return model->forward(batch);
    return script->forward({batch}).toTensor();
}

torch::Tensor Session::loss_of(const torch::Tensor &output, const torch::Tensor &labels) const {
    return c.log_probabilities ? torch::nll_loss(output, labels)
                               : torch::cross_entropy_loss(output, labels);
}

// The loss is part of what is mixed: logits of 16 bits alone would leave it three digits.
Outcome Session::judge(const torch::Tensor &batch, const torch::Tensor &labels) const {
    const Mixed mixed(c, device);
    Outcome out;
    out.output = model->forward(batch);
    out.loss = loss_of(out.output, labels);
    return out;
}

Outcome Session::step(const torch::Tensor &batch, const torch::Tensor &labels) {
    optimizer->zero_grad();
    Outcome out = judge(batch, labels);
    out.loss.backward();
    optimizer->step();
    return out;
}

Call Session::call(const std::string &region, int64_t slot) {
    const auto i = static_cast<size_t>(slot);
    if (region != "host") {
        if (c.training()) return [this, i] { return step(x[i], y[i]); };
        return [this, i] { return Outcome{{}, forward(x[i])}; };
    }
    if (!host_x[i].defined()) {
        host_x[i] = given_batch(c.x, slot).to(dtype, false, true);
        if (c.training()) host_y[i] = given_batch(c.y, slot).clone();
    }
    const auto to_device = [this](const torch::Tensor &t) {
        return t.to(device, dtype, false, false, format);
    };
    if (!c.training()) {
        return [this, i, to_device] {
            return Outcome{{}, forward(to_device(host_x[i])).to(torch::kCPU)};
        };
    }
    return [this, i, to_device] {
        const Outcome out = step(to_device(host_x[i]), host_y[i].to(device));
        return Outcome{out.loss.detach().to(torch::kCPU), out.output.detach().to(torch::kCPU)};
    };
}

void Session::finish() const {
    if (device.is_cuda()) torch::cuda::synchronize(device.index());
}

// ---------------------------------------------------------------------------- epochs
void Session::set_training(bool on) {
    model->train(on);
}

Session::Streamed Session::stream(int64_t slot, int64_t rows, bool train) {
    const auto part = [&](const Case::Input &input) {
        return given_batch(input, slot).narrow(0, 0, rows);
    };
    const auto batch = part(c.x).to(device, dtype, false, true, format);
    const auto labels = part(c.y).to(device, torch::kLong, false, true);
    finish();
    const int64_t begin = now_ns(); // of the step alone: the batch is where the model reads it
    Outcome out;
    if (train) {
        out = step(batch, labels);
    } else {
        torch::NoGradGuard guard;
        out = judge(batch, labels);
    }
    const double loss = out.loss.item<double>() * static_cast<double>(rows); // waits
    const int64_t spent = now_ns() - begin;
    return {spent, loss, (out.output.detach().argmax(1) == labels).sum().item<int64_t>()};
}

void Session::reset() {
    if (!c.training()) return;
    read_weights();
    optimizer->state().clear();
    optimizer->zero_grad();
}

// ---------------------------------------------------------------------------- what came out
torch::Tensor on_host(const torch::Tensor &tensor) {
    auto out = tensor.detach();
    if (out.scalar_type() == torch::kBFloat16) out = out.to(torch::kFloat);
    return out.to(torch::kCPU).contiguous();
}

Named Session::gradients() const {
    Named named;
    for (const auto &item : model->named_parameters()) {
        if (item.value().grad().defined())
            named.emplace_back("grad." + item.key(), item.value().grad());
    }
    return named;
}

Named Session::state() const {
    Named named;
    for (const auto &item : model->named_parameters()) {
        named.emplace_back("weight." + item.key(), item.value());
    }
    for (const auto &item : model->named_buffers()) {
        if (item.value().is_floating_point())
            named.emplace_back("buffer." + item.key(), item.value());
    }
    return named;
}

std::vector<torch::Tensor> Session::parameters() const {
    if (model) return model->parameters();
    std::vector<torch::Tensor> constants;
    // The graph, which owns the nodes, must outlive the loop.
    const auto graph = script->get_method("forward").graph();
    for (const auto *node : graph->nodes()) {
        if (node->kind() != c10::prim::Constant || !node->hasAttribute(c10::attr::value)) continue;
        if (node->kindOf(c10::attr::value) != torch::jit::AttributeKind::t) continue;
        const auto value = node->t(c10::attr::value);
        if (value.dim() > 0 && value.is_floating_point()) constants.push_back(value);
    }
    return constants;
}

Json Session::ran() const {
    std::map<std::string, int64_t> devices;
    torch::Tensor largest;
    for (const auto &p : parameters()) {
        devices[p.device().str()]++;
        if (p.dim() == 4 && (!largest.defined() || p.numel() > largest.numel())) largest = p;
    }
    JsonList places;
    for (const auto &[name, count] : devices) {
        places.push_back(JsonObject{{"device", name}, {"nodes", count}});
    }
    const bool last = largest.defined() &&
                      largest.is_contiguous(torch::MemoryFormat::ChannelsLast) &&
                      !largest.is_contiguous();
    const auto &context = at::globalContext();
    const bool tf32 = device.is_cuda() && (context.allowTF32CuDNN() || c.math == "tf32");
    const auto all = parameters();
    torch::ScalarType product; // of two matrices of f32, as it is computed here
    {
        const Mixed mode(c, device);
        const auto one = torch::ones({1, 1}, torch::TensorOptions().device(device));
        product = torch::mm(one, one).scalar_type();
    }
    const bool mixed = product != torch::kFloat;
    return JsonObject{
        {"threads", JsonObject{{"intra", at::get_num_threads()},
                               {"inter", static_cast<int64_t>(at::get_num_interop_threads())}}},
        {"devices", places},
        {"dtype", all.empty() ? Json(nullptr) : Json(name_of(all.front().scalar_type()))},
        {"math", tf32 ? "tf32" : "f32"},
        {"autocast", mixed ? Json(name_of(product)) : Json(nullptr)},
        {"layout", largest.defined() ? Json(last ? "nhwc" : "nchw") : Json(nullptr)},
        {"training", model ? model->is_training() : false},
        {"graphs", nullptr},
        {"breaks", nullptr},
        {"recompiles", nullptr},
        {"fallbacks", JsonList{}},
        {"settings", JsonObject{{"channels_last", last},
                                {"inference_mode", c.inference_mode},
                                {"cudnn_benchmark", context.benchmarkCuDNN()}}}};
}

Json Session::devices_memory() const {
    if (!device.is_cuda()) return JsonList{};
    const auto stats = at::accelerator::getDeviceStats(device.index());
    const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    return JsonList{JsonObject{{"device", device.str()},
                               {"allocated_peak_bytes", stats.allocated_bytes[all].peak},
                               {"reserved_peak_bytes", stats.reserved_bytes[all].peak},
                               {"graph_pool_bytes", nullptr},
                               {"context_bytes", nullptr}}};
}

} // namespace plumb
