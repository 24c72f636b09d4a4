// The elements of a view in logical order, and how many bytes a shape takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "multihead/tensor.h"

namespace multihead {

/// Elements times bits, in bits; nothing when it passes 64 bits. A shape with a 0 has none. Extents must not be negative.
std::optional<std::uint64_t> bits_of(const Dims& shape, unsigned bits_per_element);

/// Throws InvalidArgument "WHERE: …" unless the view can be read: no negative extent, a countable size, memory behind it.
void require_readable(const std::string& where, const ConstTensorView& view);

/// Hands out all elements as dense row-major bytes, block after block. A contiguous view comes as one block of its own memory;
/// any other goes through a buffer of fixed size.
void for_each_block(const ConstTensorView& view, const std::function<void(const void* data, std::size_t bytes)>& visit);

}  // namespace multihead
