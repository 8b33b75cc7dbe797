#pragma once

#include <ATen/core/Tensor.h>

namespace standin {

// The same memory as a CPU tensor. It keeps the memory alive, not the tensor.
at::Tensor host(const at::Tensor& tensor);

}  // namespace standin
