// A pretended accelerator for PyTorch: its tensors lie where the host cannot read them, its operators are those
// of the CPU, and every operation that would make the host wait for a real device is counted.
//
// The device's memory is one file in memory, mapped twice. Tensors hold addresses of the first mapping, which
// nobody may touch; the operators work on the same bytes through the second. New memory holds NaNs.

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/Resize.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>

namespace {

using at::Tensor;
using c10::Device;
using c10::DeviceIndex;
using c10::IValue;

constexpr auto kDevice = c10::DeviceType::PrivateUse1;
constexpr size_t kReservedBytes = size_t{8} << 30;
constexpr size_t kAlignment = 64;

std::atomic<int64_t> num_waits{0};
std::atomic<bool> waits_are_errors{false}, has_float64{true}, adam_is_heedless{false};

void wait(const char* why) {
  TORCH_CHECK(!waits_are_errors, "the host waits for the device: ", why);
  ++num_waits;
}

// ---- memory ---------------------------------------------------------------------------------------------------

struct DeviceMemory final : c10::DeviceAllocator {
  DeviceMemory() {
    const int file = memfd_create("rehearsal", 0);
    TORCH_CHECK(file >= 0 && ftruncate(file, kReservedBytes) == 0, "no memory for the rehearsal device");
    closed = map(file, PROT_NONE), open = map(file, PROT_READ | PROT_WRITE);
    close(file);
    free_blocks[0] = kReservedBytes;
  }

  static char* map(int file, int protection) {
    void* address = mmap(nullptr, kReservedBytes, protection, MAP_SHARED | MAP_NORESERVE, file, 0);
    TORCH_CHECK(address != MAP_FAILED, "no address space for the rehearsal device");
    return static_cast<char*>(address);
  }

  c10::DataPtr allocate(size_t num_bytes) override {
    const std::lock_guard lock(mutex);
    const size_t size = (std::max<size_t>(num_bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
    auto block = free_blocks.begin();
    while (block != free_blocks.end() && block->second < size) ++block;
    TORCH_CHECK_WITH(
        OutOfMemoryError, block != free_blocks.end() && in_use + size <= limit, "rehearsal: out of memory");
    const auto [offset, available] = *block;
    free_blocks.erase(block);
    if (available > size) free_blocks[offset + size] = available - size;
    sizes[offset] = size;
    in_use += size, peak = std::max(peak, in_use);
    std::memset(open + offset, 0xff, size);
    char* address = closed + offset;
    return {address, address, &release, Device(kDevice, 0)};
  }

  void give_back(size_t offset) {
    const std::lock_guard lock(mutex);
    auto size = sizes.extract(offset).mapped();
    in_use -= size;
    auto after = free_blocks.upper_bound(offset);
    if (after != free_blocks.end() && after->first == offset + size) {
      size += after->second;
      after = free_blocks.erase(after);
    }
    if (after != free_blocks.begin() && std::prev(after)->first + std::prev(after)->second == offset)
      std::prev(after)->second += size;
    else
      free_blocks[offset] = size;
  }

  static void release(void* address);
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override {
    std::memcpy(readable(to), readable(from), count);
  }
  char* readable(const void* address) const { return open + (static_cast<const char*>(address) - closed); }

  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(DeviceIndex) override {
    c10::CachingDeviceAllocator::DeviceStats stats;
    stats.allocated_bytes[0].current = static_cast<int64_t>(in_use);
    stats.allocated_bytes[0].peak = static_cast<int64_t>(peak);
    return stats;
  }
  void resetAccumulatedStats(DeviceIndex) override {}
  void resetPeakStats(DeviceIndex) override { peak = in_use; }
  std::pair<size_t, size_t> getMemoryInfo(DeviceIndex) override { return {limit - in_use, limit}; }

  char *closed, *open;
  size_t in_use = 0, peak = 0, limit = kReservedBytes;
  std::map<size_t, size_t> free_blocks, sizes;
  std::mutex mutex;
};

DeviceMemory& memory() {
  static auto* only = new DeviceMemory;  // tensors may outlive static objects
  return *only;
}

void DeviceMemory::release(void* address) {
  memory().give_back(static_cast<char*>(address) - memory().closed);
}

struct PinnedMemory final : at::Allocator {
  c10::DataPtr allocate(size_t num_bytes) override {
    void* address = std::malloc(std::max<size_t>(num_bytes, 1));
    const std::lock_guard lock(mutex);
    ends[static_cast<char*>(address)] = static_cast<char*>(address) + num_bytes;
    return {address, address, &release, Device(c10::kCPU)};
  }
  bool holds(const void* address) {
    const std::lock_guard lock(mutex);
    auto after = ends.upper_bound(static_cast<char*>(const_cast<void*>(address)));
    return after != ends.begin() && address < std::prev(after)->second;
  }
  static void release(void* address);
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* to, const void* from, size_t count) const override { std::memcpy(to, from, count); }

  std::map<char*, char*> ends;
  std::mutex mutex;
};

PinnedMemory& pinned() {
  static auto* only = new PinnedMemory;
  return *only;
}

void PinnedMemory::release(void* address) {
  const std::lock_guard lock(pinned().mutex);
  pinned().ends.erase(static_cast<char*>(address));
  std::free(address);
}

// ---- random numbers -------------------------------------------------------------------------------------------

/** A generator of the device; the CPU's operators draw from the one inside. */
struct DeviceGenerator final : c10::GeneratorImpl {
  DeviceGenerator() : GeneratorImpl(Device(kDevice, 0), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}
  void set_current_seed(uint64_t seed) override { core.set_current_seed(seed); }
  uint64_t current_seed() const override { return core.current_seed(); }
  uint64_t seed() override { return core.seed(); }
  void set_offset(uint64_t) override { TORCH_CHECK(false, "the generator has no offset"); }
  uint64_t get_offset() const override { TORCH_CHECK(false, "the generator has no offset"); }
  void set_state(const c10::TensorImpl& state) override { core.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return core.unsafeGetGeneratorImpl()->get_state();
  }
  DeviceGenerator* clone_impl() const override {
    auto* copy = new DeviceGenerator;
    copy->core = core.clone();
    return copy;
  }
  at::Generator core = at::detail::createCPUGenerator();
};

const at::Generator& default_generator() {
  static const auto* only = new at::Generator(at::make_generator<DeviceGenerator>());
  return *only;
}

// ---- what PyTorch asks a device -------------------------------------------------------------------------------

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(DeviceIndex) const override { return true; }
  DeviceIndex deviceCount() const override { return 1; }
  DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(DeviceIndex) const override {}
  DeviceIndex exchangeDevice(DeviceIndex) const override { return 0; }
  DeviceIndex maybeExchangeDevice(DeviceIndex) const override { return 0; }
  const at::Generator& getDefaultGenerator(DeviceIndex) const override { return default_generator(); }
  at::Generator getNewGenerator(DeviceIndex) const override { return at::make_generator<DeviceGenerator>(); }
  Device getDeviceFromPtr(void*) const override { return {kDevice, 0}; }
  bool isPinnedPtr(const void* address) const override { return pinned().holds(address); }
  at::Allocator* getPinnedMemoryAllocator() const override { return &pinned(); }
};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kDevice; }
  Device exchangeDevice(Device) const override { return getDevice(); }
  Device getDevice() const override { return {kDevice, 0}; }
  void setDevice(Device) const override {}
  void uncheckedSetDevice(Device) const noexcept override {}
  DeviceIndex deviceCount() const noexcept override { return 1; }
  c10::Stream getStream(Device) const override { return c10::Stream(c10::Stream::DEFAULT, getDevice()); }
  c10::Stream getDefaultStream(Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream) const override { return getStream(getDevice()); }
  void record(void**, const c10::Stream&, DeviceIndex, c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeEvent(void*) const override { wait("synchronize"); }
  void synchronizeStream(const c10::Stream&) const override { wait("synchronize"); }
  void synchronizeDevice(DeviceIndex) const override { wait("synchronize"); }
};

C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// ---- tensors --------------------------------------------------------------------------------------------------

bool on_device(const Tensor& x) { return x.defined() && x.is_privateuseone(); }

Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<Device>, std::optional<bool>) {
  const auto type = c10::dtype_or_default(dtype);
  TORCH_CHECK_TYPE(has_float64 || type != at::kDouble, "the rehearsal device has no float64");
  constexpr c10::DispatchKeySet keys(c10::DispatchKey::PrivateUse1);
  return at::detail::empty_strided_generic(size, stride, &memory(), keys, type);
}

Tensor empty(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<Device> device, std::optional<bool> pin, std::optional<at::MemoryFormat>) {
  return empty_strided(size, c10::contiguous_strides(size), dtype, layout, device, pin);
}

/** A tensor of the CPU over the bytes of one of the device. */
Tensor unlocked(const Tensor& x) {
  if (!x.numel()) return at::empty_strided(x.sizes(), x.strides(), x.options().device(at::kCPU));
  const auto* start = static_cast<const char*>(x.storage().data()) + x.storage_offset() * x.element_size();
  return at::from_blob(memory().readable(start), x.sizes(), x.strides(), x.options().device(at::kCPU));
}

Tensor sent(const Tensor& x) {
  auto copy = at::empty_strided(x.sizes(), x.strides(), x.options().device(kDevice));
  unlocked(copy).copy_(x);
  return copy;
}

Tensor copy_from(const Tensor& from, const Tensor& to, bool non_blocking) {
  if (!on_device(to) && !non_blocking) wait("a copy to the host");
  if (!on_device(from) && !(non_blocking && from.is_pinned())) wait("a copy from memory that is not pinned");
  (on_device(to) ? unlocked(to) : to).copy_(on_device(from) ? unlocked(from) : from);
  return to;
}

at::Scalar local_scalar_dense(const Tensor& x) {
  wait("item");
  return at::_local_scalar_dense(unlocked(x));
}

const Tensor& resize(const Tensor& x, c10::IntArrayRef size, std::optional<at::MemoryFormat>) {
  const auto larger = at::empty(size, x.options());
  const_cast<Tensor&>(x).set_(larger.storage(), 0, larger.sizes(), larger.strides());
  return x;
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& x, double rate, std::optional<bool>) {
  const auto kept = at::empty_like(x, x.options().dtype(at::kBool)).bernoulli_(1 - rate);
  return {x * kept * (1 / (1 - rate)), kept};
}

/** The CPU computes LSTMs without this operator. */
std::tuple<Tensor, Tensor, Tensor> lstm_cell(
    const Tensor& of_input, const Tensor& of_hidden, const Tensor& cell, const std::optional<Tensor>& input_bias,
    const std::optional<Tensor>& hidden_bias) {
  auto gates = of_input + of_hidden;
  for (const auto* bias : {&input_bias, &hidden_bias})
    if (bias->has_value() && (*bias)->defined()) gates = gates + **bias;
  const auto parts = gates.chunk(4, 1);
  const auto next = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
  return {parts[3].sigmoid() * next.tanh(), next, gates};
}

// ---- operators of the CPU -------------------------------------------------------------------------------------

const std::set<std::string> kSizedByContent{
    "aten::nonzero", "aten::masked_select", "aten::_unique2", "aten::unique_dim", "aten::unique_consecutive",
    "aten::equal", "aten::bincount", "aten::repeat_interleave"};

/** Runs an operator of the CPU on tensors of the device. */
struct Fallback {
  const c10::OperatorHandle& op;
  const bool may_index = op.schema().name().find("index") != std::string::npos;
  bool any_on_device = false, in_list = false;
  Tensor stray;

  Tensor unlock(const Tensor& x) {
    any_on_device |= on_device(x);
    if (on_device(x)) {
      if (may_index && (x.scalar_type() == at::kBool || x.scalar_type() == at::kByte) && in_list) wait("a mask");
      return unlocked(x);
    }
    if (x.defined() && x.dim() > 0) {
      if (may_index && in_list) wait("indices on the host");
      else stray = x;
    }
    return x;
  }

  IValue unlock(const IValue& value) {
    if (value.isTensor()) return unlock(value.toTensor());
    if (value.isDevice()) return Device(c10::kCPU);
    if (value.isGenerator()) return drawn_from(value.toGenerator());
    if (!value.isList() || value.isIntList() || value.isDoubleList() || value.isBoolList()) return value;
    in_list = true;
    auto list = value.toList().copy();
    for (size_t i = 0; i < list.size(); ++i) list.set(i, unlock(list.get(i)));
    in_list = false;
    return list;
  }

  static at::Generator drawn_from(const at::Generator& generator) {
    return static_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl())->core;
  }

  void run(torch::jit::Stack* stack) {
    const auto& schema = op.schema();
    if (kSizedByContent.count(schema.name())) wait(schema.name().c_str());
    auto given = torch::jit::pop(*stack, schema.arguments().size());
    if (adam_is_heedless && schema.name() == "aten::_fused_adam_") given.back() = {};  // found_inf
    for (size_t i = 0; i < given.size(); ++i) {
      const auto& argument = schema.arguments()[i];
      const bool draws = argument.type()->str().find("Generator") != std::string::npos;
      if (draws && given[i].isNone()) stack->emplace_back(drawn_from(default_generator()));
      else if (is_new(argument, given[i])) stack->emplace_back(at::empty({0}, cpu(given[i].toTensor())));
      else stack->emplace_back(unlock(given[i]));
    }
    TORCH_CHECK(
        !(any_on_device && stray.defined()), "Expected all tensors to be on the same device, but ",
        schema.name(), " has one of the host: ", stray.sizes());
    const std::vector<IValue> used(stack->end() - given.size(), stack->end());
    op.callBoxed(*stack);
    auto found = torch::jit::pop(*stack, schema.returns().size());
    for (size_t i = 0; i < found.size(); ++i)
      stack->emplace_back(returned(schema.returns()[i], found[i], given, used));
  }

  /** Whether the operator gives an output tensor of the caller its size. */
  static bool is_new(const c10::Argument& argument, const IValue& value) {
    return argument.is_out() && value.isTensor() && !value.toTensor().numel();
  }

  static at::TensorOptions cpu(const Tensor& x) { return x.options().device(at::kCPU); }

  IValue returned(
      const c10::Argument& result, const IValue& found, const std::vector<IValue>& given,
      const std::vector<IValue>& used) {
    if (!result.alias_info()) return locked(found);
    TORCH_CHECK(result.alias_info()->isWrite(), op.schema().name(), " makes a view: implement it");
    for (size_t i = 0; i < given.size(); ++i) {
      const auto& argument = op.schema().arguments()[i];
      if (!argument.alias_info() || !(*argument.alias_info() == *result.alias_info())) continue;
      if (is_new(argument, given[i])) {
        const auto whole = sent(used[i].toTensor());
        given[i].toTensor().set_(whole.storage(), 0, whole.sizes(), whole.strides());
      }
      return given[i];
    }
    TORCH_CHECK(false, op.schema().name(), " returns an argument that it has not");
  }

  static IValue locked(const IValue& value) {
    if (value.isTensor()) return value.toTensor().defined() ? sent(value.toTensor()) : value;
    if (!value.isTensorList()) return value;
    auto list = value.toTensorList().copy();
    for (size_t i = 0; i < list.size(); ++i) list.set(i, sent(list.get(i)));
    return list;
  }
};

void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) { Fallback{op}.run(stack); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("_copy_from", copy_from);
  m.impl("_local_scalar_dense", local_scalar_dense);
  m.impl("resize_", resize);
  m.impl("native_dropout", native_dropout);
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("view", TORCH_FN(at::native::view));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("set_.source_Storage", TORCH_FN(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(at::native::set_storage_cpu_));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("_thnn_fused_lstm_cell", lstm_cell); }

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
  KERNEL_PRIVATEUSEONE(linear, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(matmul, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(scaled_dot_product_attention, lower_precision_fp)
}

const bool is_registered = [] {
  static Hooks hooks;
  c10::SetAllocator(kDevice, &memory());
  at::RegisterPrivateUse1HooksInterface(&hooks);
  return true;
}();

}  // namespace

extern "C" {
int64_t rehearsal_num_waits() { return num_waits; }
void rehearsal_seed(uint64_t seed) { default_generator().unsafeGetGeneratorImpl()->set_current_seed(seed); }
void rehearsal_forbid_waits(int forbidden) { waits_are_errors = forbidden; }
void rehearsal_forbid_float64(int forbidden) { has_float64 = !forbidden; }
void rehearsal_make_adam_heedless(int heedless) { adam_is_heedless = heedless; }
void rehearsal_limit_bytes(size_t limit) { memory().limit = limit; }
}
