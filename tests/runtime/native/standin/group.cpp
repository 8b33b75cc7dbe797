// Collectives of the stand-in: gloo's, on the same memory seen from the host.

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/utils/pybind.h>

#include "standin.h"

namespace standin {
namespace {

using c10d::Work;
using Tensors = std::vector<at::Tensor>;
using Lists = std::vector<Tensors>;
using Pending = c10::intrusive_ptr<Work>;

Tensors hosts(const Tensors& tensors) {
  Tensors out;
  for (auto& tensor : tensors) out.push_back(host(tensor));
  return out;
}

Lists hosts(const Lists& lists) {
  Lists out;
  for (auto& tensors : lists) out.push_back(hosts(tensors));
  return out;
}

struct Group final : c10d::Backend {
  Group(c10::intrusive_ptr<c10d::Backend> gloo, int rank, int size)
      : Backend(rank, size), gloo_(std::move(gloo)) {}

  const std::string getBackendName() const override { return "standin"; }

  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override {
    auto seen = hosts(tensors);
    return gloo_->broadcast(seen, options);
  }
  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override {
    auto seen = hosts(tensors);
    return gloo_->allreduce(seen, options);
  }
  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    auto seen = hosts(tensors);
    return gloo_->reduce(seen, options);
  }
  Pending allgather(Lists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options)
      override {
    auto out = hosts(outputs);
    auto in = hosts(inputs);
    return gloo_->allgather(out, in, options);
  }
  Pending _allgather_base(
      at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions& options) override {
    auto out = host(output);
    auto in = host(input);
    return gloo_->_allgather_base(out, in, options);
  }
  Pending gather(Lists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    auto out = hosts(outputs);
    auto in = hosts(inputs);
    return gloo_->gather(out, in, options);
  }
  Pending scatter(Tensors& outputs, Lists& inputs, const c10d::ScatterOptions& options) override {
    auto out = hosts(outputs);
    auto in = hosts(inputs);
    return gloo_->scatter(out, in, options);
  }
  Pending _reduce_scatter_base(
      at::Tensor& output, at::Tensor& input, const c10d::ReduceScatterOptions& options) override {
    auto out = host(output);
    auto in = host(input);
    return gloo_->_reduce_scatter_base(out, in, options);
  }
  Pending alltoall_base(
      at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_sizes,
      std::vector<int64_t>& input_sizes, const c10d::AllToAllOptions& options) override {
    auto out = host(output);
    auto in = host(input);
    return gloo_->alltoall_base(out, in, output_sizes, input_sizes, options);
  }
  Pending allreduce_coalesced(
      Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override {
    auto seen = hosts(tensors);
    return gloo_->allreduce_coalesced(seen, options);
  }
  Pending allgather_into_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override {
    auto out = hosts(outputs);
    auto in = hosts(inputs);
    return gloo_->allgather_into_tensor_coalesced(out, in, options);
  }
  Pending reduce_scatter_tensor_coalesced(
      Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) override {
    auto out = hosts(outputs);
    auto in = hosts(inputs);
    return gloo_->reduce_scatter_tensor_coalesced(out, in, options);
  }
  Pending barrier(const c10d::BarrierOptions& options) override { return gloo_->barrier(options); }

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
};

}  // namespace
}  // namespace standin

void bind_group(pybind11::module& m) {
  using standin::Group;
  pybind11::class_<Group, c10::intrusive_ptr<Group>, c10d::Backend>(m, "Group")
      .def(pybind11::init<c10::intrusive_ptr<c10d::Backend>, int, int>());
}
