// SPDX-License-Identifier: Apache-2.0
#include "weights.hpp"

#include <cstring>
#include <fstream>
#include <sstream>

#include "message.hpp"

namespace plumb {

static torch::ScalarType dtype_of(const std::string &path, const std::string &name) {
    static const std::map<std::string, torch::ScalarType> dtypes = {
        {"F64", torch::kDouble},    {"F32", torch::kFloat}, {"F16", torch::kHalf},
        {"BF16", torch::kBFloat16}, {"I64", torch::kLong},  {"I32", torch::kInt}};
    const auto found = dtypes.find(name);
    if (found == dtypes.end()) throw invalid(path + ": a tensor of dtype " + name);
    return found->second;
}

static torch::Tensor read_tensor(const std::string &path, const Json &entry, std::ifstream &file,
                                 int64_t base, int64_t end) {
    const auto shape = need_counts(entry, "shape");
    const auto places = need_counts(entry, "data_offsets");
    for (const int64_t extent : shape) {
        if (extent < 0 || extent > int64_t{1} << 40) throw invalid(path + ": an impossible shape");
    }
    if (places.size() != 2 || places[0] < 0 || places[1] < places[0] || places[1] > end - base) {
        throw invalid(path + ": a tensor beyond the end of the file");
    }
    const auto dtype = dtype_of(path, need_text(entry, "dtype"));
    int64_t size = static_cast<int64_t>(torch::elementSize(dtype));
    for (const int64_t extent : shape) {
        if (extent && size > (end - base) / extent) throw invalid(path + ": an impossible shape");
        size *= extent;
    }
    if (size != places[1] - places[0]) throw invalid(path + ": a tensor of the wrong size");
    auto tensor = torch::empty(shape, torch::TensorOptions(dtype));
    file.seekg(base + places[0]);
    file.read(static_cast<char *>(tensor.data_ptr()), size);
    if (!file) throw invalid(path + ": cannot be read to its end");
    return tensor;
}

std::map<std::string, torch::Tensor> read_safetensors(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw invalid(path + ": cannot be opened");
    file.seekg(0, std::ios::end);
    const int64_t end = file.tellg();
    file.seekg(0);
    uint64_t length = 0;
    file.read(reinterpret_cast<char *>(&length), sizeof length);
    if (!file || length > static_cast<uint64_t>(end) - 8) throw invalid(path + ": no safetensors");
    std::string text(length, ' ');
    file.read(text.data(), static_cast<std::streamsize>(length));
    Json header;
    try {
        header = JsonParser(text).parse();
    } catch (const std::runtime_error &error) {
        throw invalid(path + ": " + error.what());
    }
    const auto *entries = header.get<JsonObject>();
    if (!file || !entries) throw invalid(path + ": no safetensors");
    std::map<std::string, torch::Tensor> tensors;
    for (const auto &[name, entry] : *entries) {
        if (name == "__metadata__") continue;
        tensors[name] = read_tensor(path, entry, file, static_cast<int64_t>(8 + length), end);
    }
    return tensors;
}

} // namespace plumb
