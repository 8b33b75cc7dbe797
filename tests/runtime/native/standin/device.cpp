// A device of torch's (PrivateUse1) whose memory is the host's and whose kernels are the CPU's.
//
// It stands in for the native TPU and Neuron backends in tests: torch sees an accelerator with
// devices, memory, a random stream of its own and autocast; results are the CPU's.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/alloc_cpu.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/library.h>

#include "standin.h"

namespace standin {
namespace {

constexpr auto KIND = c10::DeviceType::PrivateUse1;
constexpr int64_t MEMORY = int64_t{1} << 30;  // of each device, in bytes
constexpr int MOST = 8;

int count() {
  const char* given = std::getenv("STANDIN_DEVICES");
  return given ? std::atoi(given) : 1;
}

// Where processes have one device each, it is that of their local rank, as torch_tpu has it.
c10::DeviceIndex first() {
  const char* own = std::getenv("STANDIN_OWN_DEVICE");
  const char* rank = std::getenv("LOCAL_RANK");
  return own && own[0] == '1' && rank ? std::atoi(rank) : 0;
}

thread_local c10::DeviceIndex current = -1;

c10::DeviceIndex current_device() {
  if (current < 0) current = first();
  return current;
}

void use(c10::DeviceIndex index) {
  TORCH_CHECK(index >= 0 && index < count(), "stand-in: there is no device ", (int)index);
  current = index;
}

// Memory

std::mutex counting;
c10::CachingDeviceAllocator::DeviceStats figures[MOST];
constexpr auto ALL = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);

struct Block {
  void* memory;
  size_t bytes;
  c10::DeviceIndex device;
};

void release(void* context) {
  auto* block = static_cast<Block*>(context);
  {
    std::lock_guard<std::mutex> lock(counting);
    figures[block->device].allocated_bytes[ALL].decrease(block->bytes);
    figures[block->device].reserved_bytes[ALL].decrease(block->bytes);
  }
  c10::free_cpu(block->memory);
  delete block;
}

c10::DataPtr allocated(size_t bytes) {
  auto device = current_device();
  auto* block = new Block{c10::alloc_cpu(bytes), bytes, device};
  {
    std::lock_guard<std::mutex> lock(counting);
    figures[device].allocated_bytes[ALL].increase(bytes);
    figures[device].reserved_bytes[ALL].increase(bytes);
  }
  return {block->memory, block, &release, c10::Device(KIND, device)};
}

// With memory figures, and without.
struct Counting final : c10::DeviceAllocator {
  c10::DataPtr allocate(size_t bytes) override { return allocated(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    std::lock_guard<std::mutex> lock(counting);
    return figures[device];
  }
  // An override from torch 2.10 on.
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) {
    std::lock_guard<std::mutex> lock(counting);
    return {MEMORY - figures[device].reserved_bytes[ALL].current, MEMORY};
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex device) override {
    std::lock_guard<std::mutex> lock(counting);
    figures[device].allocated_bytes[ALL].reset_peak();
    figures[device].reserved_bytes[ALL].reset_peak();
  }
};

struct Silent final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override { return allocated(bytes); }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

c10::Allocator* allocator() {
  static Counting counting_one;
  static Silent silent_one;
  const char* asked = std::getenv("STANDIN_MEMORY_FIGURES");
  if (asked && asked[0] == '1') return &counting_one;
  return &silent_one;
}

// The device as torch knows it

// Streams have names, and one is current; what runs is done when the call returns, so nothing waits for anything.
// An event is the time at which it was recorded.
using Clock = std::chrono::steady_clock;
thread_local c10::StreamId streams[MOST] = {};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return KIND; }
  c10::Device getDevice() const override { return {KIND, current_device()}; }
  c10::Device exchangeDevice(c10::Device device) const override {
    auto before = getDevice();
    setDevice(device);
    return before;
  }
  void setDevice(c10::Device device) const override { use(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    auto index = device.has_index() ? device.index() : current_device();
    return c10::Stream(c10::Stream::UNSAFE, {KIND, index}, streams[index]);
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::DEFAULT, device);
  }
  c10::Stream getNewStream(c10::Device device, int = 0) const override {
    static std::atomic<c10::StreamId> last{0};
    auto index = device.has_index() ? device.index() : current_device();
    return c10::Stream(c10::Stream::UNSAFE, {KIND, index}, ++last);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool = false) const override {
    return getNewStream(device);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    auto before = getStream(stream.device());
    streams[stream.device_index()] = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return count(); }
  void record(void** event, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override {
    if (*event == nullptr) *event = new Clock::time_point;
    *static_cast<Clock::time_point*>(*event) = Clock::now();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void destroyEvent(void* event, c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
  double elapsedTime(void* from, void* to, c10::DeviceIndex) const override {
    auto passed = *static_cast<Clock::time_point*>(to) - *static_cast<Clock::time_point*>(from);
    return std::chrono::duration<double, std::milli>(passed).count();
  }
  void synchronizeEvent(void*) const override {}
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// Whether random numbers come from the host's stream, as on the CPU: then runs can be compared with the CPU's
// though they draw numbers in both places.
bool shares_stream() {
  const char* asked = std::getenv("STANDIN_SHARES_STREAM");
  return asked && asked[0] == '1';
}

at::Generator& generator(c10::DeviceIndex device) {
  static std::vector<at::Generator> all(MOST);
  auto& one = all[device < 0 ? current_device() : device];
  if (!one.defined()) {
    one = shares_stream() ? at::detail::getDefaultCPUGenerator() : at::detail::createCPUGenerator();
  }
  return one;
}

// Memory that is "pinned": the CPU's, which is known by its place.
std::mutex pinning;
std::set<const void*> pinned_places;

void unpin(void* place) {
  {
    std::lock_guard<std::mutex> lock(pinning);
    pinned_places.erase(place);
  }
  c10::free_cpu(place);
}

struct Pinning final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void* place = c10::alloc_cpu(bytes);
    std::lock_guard<std::mutex> lock(pinning);
    pinned_places.insert(place);
    return {place, place, &unpin, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &unpin; }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  void init() const override {}
  c10::DeviceIndex deviceCount() const override { return count(); }
  c10::DeviceIndex getCurrentDevice() const override { return current_device(); }
  void setCurrentDevice(c10::DeviceIndex device) const override { use(device); }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override {
    return at::detail::createCPUGenerator();
  }
  at::Device getDeviceFromPtr(void*) const override { return {KIND, current_device()}; }
  at::Allocator* getPinnedMemoryAllocator() const override {
    static Pinning one;
    return &one;
  }
  bool isPinnedPtr(const void* place) const override {
    std::lock_guard<std::mutex> lock(pinning);
    return pinned_places.count(place) > 0;
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    c10::DeviceGuard guard(storage.device());
    auto fresh = allocated(bytes);  // of this device, also where nothing is left
    if (auto kept = std::min(bytes, storage.nbytes())) {
      std::memcpy(fresh.get(), storage.data(), kept);
    }
    storage.set_data_ptr_noswap(std::move(fresh));
    storage.set_nbytes(bytes);
  }
};

// Kernels

c10::Device placed(std::optional<at::Device> device) {
  return {KIND, device && device->has_index() ? device->index() : current_device()};
}

constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

at::Tensor empty(
    at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
    std::optional<at::Device> device, std::optional<bool>,
    std::optional<at::MemoryFormat> format) {
  c10::DeviceGuard guard(placed(device));
  return at::detail::empty_generic(
      size, allocator(), KEYS, c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(
    at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  c10::DeviceGuard guard(placed(device));
  return at::detail::empty_strided_generic(
      size, stride, allocator(), KEYS, c10::dtype_or_default(dtype));
}

at::Tensor copy_from(const at::Tensor& from, const at::Tensor& to, bool) {
  at::NoGradGuard no_grad;
  host(to).copy_(host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& from, const at::Tensor& to) {
  if (to.sizes() != from.sizes()) to.resize_(from.sizes());
  return copy_from(from, to, false);
}

const at::Tensor& resize_(
    const at::Tensor& self, at::IntArrayRef size, std::optional<at::MemoryFormat>) {
  c10::DeviceGuard guard(self.device());
  at::native::resize_impl_cpu_(self.unsafeGetTensorImpl(), size, std::nullopt);
  return self;
}

void record_stream(at::Tensor&, c10::Stream) {}

at::Scalar value(const at::Tensor& self) { return host(self).item(); }

at::Tensor& set_storage_(
    at::Tensor& self, at::Storage source, int64_t offset, at::IntArrayRef size,
    at::IntArrayRef stride) {
  return at::native::set_storage_cpu_(self, std::move(source), offset, size, stride);
}

at::Tensor& set_whole_storage_(at::Tensor& self, at::Storage source) {
  auto length = static_cast<int64_t>(source.nbytes() / self.dtype().itemsize());
  return at::native::set_storage_cpu_(self, std::move(source), 0, length, {});
}

// Operations to which CUDA, too, gives tensors of the host: indices, lengths of sequences, sources of copies.
const std::set<std::string> TAKE_HOST_TENSORS{
    "aten::index",     "aten::index_put",     "aten::index_put_",           "aten::_index_put_impl_",
    "aten::copy_",     "aten::_foreach_copy_", "aten::_pack_padded_sequence", "aten::_unsafe_index",
    "aten::_copy_from", "aten::_pack_padded_sequence_backward", "aten::tensor_split"};

// Tensors of the host beside the device's, which CUDA refuses; a number without dimensions is taken.
void refuse_two_devices(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  bool device = false, host = false;
  auto look = [&](const at::Tensor& one) {
    if (!one.defined()) return;
    device |= one.device().type() == KIND;
    host |= one.is_cpu() && one.dim() > 0;
  };
  for (const auto& value : torch::jit::last(stack, op.schema().arguments().size())) {
    if (value.isTensor()) look(value.toTensor());
    if (value.isTensorList()) {
      for (const at::Tensor& one : value.toTensorVector()) look(one);
    }
  }
  TORCH_CHECK(
      !(device && host) || TAKE_HOST_TENSORS.count(op.operator_name().name),
      "Expected all tensors to be on the same device, but found the stand-in's and the CPU's in ",
      op.operator_name());
}

// The CPU's kernel on copies of the tensors. What draws random numbers draws from the device's
// stream: the CPU's generator is in the device's state meanwhile.
void on_the_cpu(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  refuse_two_devices(op, *stack);
  if (shares_stream() || !op.hasTag(at::Tag::nondeterministic_seeded)) {
    at::native::cpu_fallback(op, stack);
    return;
  }
  static std::mutex drawing;
  std::lock_guard<std::mutex> lock(drawing);
  at::Generator cpu = at::detail::getDefaultCPUGenerator();
  auto own = generator(-1);
  auto before = cpu.get_state();
  cpu.set_state(own.get_state());
  at::native::cpu_fallback(op, stack);
  own.set_state(cpu.get_state());
  cpu.set_state(before);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &value);
  m.impl("record_stream", &record_stream);
  m.impl("resize_", &resize_);
  m.impl("set_.source_Storage_storage_offset", &set_storage_);
  m.impl("set_.source_Storage", &set_whole_storage_);
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&on_the_cpu>());
}

// Operations without a gradient, such as collectives: torch 2.13 passes them on by itself, torch 2.9 does not.
void pass_on_below_autograd() {
  constexpr auto key = c10::DispatchKey::AutogradPrivateUse1;
  if (c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(key)) return;
  static torch::Library library(torch::Library::IMPL, "_", key, __FILE__, __LINE__);
  library.fallback(torch::CppFunction::makeFallthrough());
}

// Autocast with CUDA's lists of operations. One boxed function casts for all: a template instance for
// each operation, as torch's own backends have it, would take most of the compiler's time.
template <bool LOWER>
void with_cast_tensors(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::DispatchKey::AutocastPrivateUse1);
  auto type = LOWER ? at::autocast::get_autocast_dtype(KIND) : at::kFloat;
  auto cast = [&](const at::Tensor& one) { return at::autocast::cached_cast(type, one, KIND); };
  for (auto at = stack->end() - op.schema().arguments().size(); at != stack->end(); ++at) {
    auto& value = *at;
    if (value.isTensor()) {
      value = cast(value.toTensor());
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& one : value.toTensorVector()) list.push_back(cast(one));
      value = std::move(list);
    }
  }
  op.callBoxed(stack);
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  auto add = [&](std::string name, const std::string& overload, bool lower) {
    if (!overload.empty()) name += "." + overload;
    using torch::CppFunction;
    m.impl(
        name.c_str(), lower ? CppFunction::makeFromBoxedFunction<&with_cast_tensors<true>>()
                            : CppFunction::makeFromBoxedFunction<&with_cast_tensors<false>>());
  };
#define STANDIN_LOWER(op, ...) add(#op, "" #__VA_ARGS__, true);
#define STANDIN_FP32(op, ...) add(#op, "" #__VA_ARGS__, false);
  AT_FORALL_LOWER_PRECISION_FP(STANDIN_LOWER)
  AT_FORALL_FP32(STANDIN_FP32)
}

}  // namespace

at::Tensor host(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_cpu()) return tensor;
  auto held = tensor.storage();
  return at::from_blob(
      tensor.data_ptr(), tensor.sizes(), tensor.strides(), [held](void*) {},
      tensor.options().device(at::kCPU).requires_grad(false));
}

}  // namespace standin

void bind_group(pybind11::module& m);

PYBIND11_MODULE(standin_device, m) {
  using namespace standin;
  m.def("start", [] {
    c10::SetAllocator(KIND, allocator());
    at::RegisterPrivateUse1HooksInterface(new Hooks());
    pass_on_below_autograd();
  });
  m.def("host", &host);
  m.def("count", &count);
  m.def("current", [] { return (int)current_device(); });
  m.def("use", [](int index) { use(index); });
  m.def("generator", [](int index) { return generator(index); });
  m.def("seed", [](int index, uint64_t seed) { generator(index).set_current_seed(seed); });
  m.def("state", [](int index) { return generator(index).get_state(); });
  m.def("set_state", [](int index, const at::Tensor& state) { generator(index).set_state(state); });
  m.attr("MEMORY") = MEMORY;
  bind_group(m);
}
