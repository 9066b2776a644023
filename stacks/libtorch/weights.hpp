// SPDX-License-Identifier: Apache-2.0
// Reads safetensors: eight bytes with the length of a JSON header, the header, the values.
#pragma once
#include <map>
#include <string>

#include <torch/types.h>

namespace plumb {

// Every tensor of the file, on the host, in memory of its own. Throws `invalid` with the place.
std::map<std::string, torch::Tensor> read_safetensors(const std::string &path);

} // namespace plumb
