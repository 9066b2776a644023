// SPDX-License-Identifier: Apache-2.0
// A model in LibTorch with its weights, batches and optimizer, ready to be called.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <torch/optim.h>
#include <torch/script.h>

#include "message.hpp"
#include "models.hpp"

namespace plumb {

// A `load` request, checked.
struct Case {
    struct Input {
        std::string dtype;
        std::vector<int64_t> shape, offsets;
    };
    std::string model, task, device, dtype, math, autocast, weights, layout;
    std::string file; // TorchScript in place of a model; empty: none
    int64_t batch, size, classes;
    int threads;
    bool dropout, log_probabilities;
    bool channels_last, inference_mode, cudnn_benchmark; // settings
    Json optimizer;
    Input x, y; // y: in training

    bool training() const { return task == "train"; }
};

Json capabilities(); // of this build on this machine
// Reads a `load`; throws `invalid` or `refused`.
Case parse_case(const Json &request, Inputs &inputs);

// What an iteration leaves; loss is undefined in inference.
struct Outcome {
    torch::Tensor loss, output;
};

using Named = std::vector<std::pair<std::string, torch::Tensor>>;
using Call = std::function<Outcome()>;

class Session {
  public:
    Session(Case case_, Inputs &inputs);
    const Case &given() const { return c; }
    const char *output_name() const { return c.file.empty() ? "output" : "output.0"; }
    int64_t export_ns() const { return exported_ns; } // -1: the model was written by hand
    void take(const std::vector<int64_t> &slots);
    Call call(const std::string &region, int64_t slot);
    void finish() const;        // waits for the device
    void set_training(bool on); // the mode of the layers, for epochs
    // The first rows of a batch that the caller has put there, trained on or evaluated.
    struct Streamed {
        int64_t ns;
        double loss_sum;
        int64_t correct;
    };
    Streamed stream(int64_t slot, int64_t rows, bool train);
    void reset(); // training: the weights of the file and a fresh optimizer
    Named gradients() const;
    Named state() const;
    Json ran() const;
    Json devices_memory() const;

  private:
    void configure() const;
    void build();
    void load_script();
    void freeze_script(const std::string &path);
    void read_weights();
    torch::Tensor given_batch(const Case::Input &input, int64_t slot) const;
    torch::Tensor forward(const torch::Tensor &x);
    torch::Tensor loss_of(const torch::Tensor &output, const torch::Tensor &labels) const;
    Outcome judge(const torch::Tensor &x, const torch::Tensor &y) const;
    Outcome step(const torch::Tensor &x, const torch::Tensor &y);
    std::vector<torch::Tensor> parameters() const;

    Case c;
    Inputs &inputs;
    torch::Device device;
    torch::ScalarType dtype;
    torch::MemoryFormat format;
    std::shared_ptr<Model> model;               // written by hand
    std::unique_ptr<torch::jit::Module> script; // or exported
    std::unique_ptr<torch::optim::Optimizer> optimizer;
    std::vector<torch::Tensor> x, y, host_x, host_y;
    int64_t exported_ns = -1;
};

torch::Tensor on_host(const torch::Tensor &tensor); // dense; bf16 as f32

} // namespace plumb
