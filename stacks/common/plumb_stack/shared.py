# SPDX-License-Identifier: Apache-2.0
"""Tensors in shared memory, as numpy arrays."""
import mmap
import os

import numpy as np

from .errors import Invalid

ALIGN_BYTES = 64
# bf16 has no type in numpy: its bits travel as u16 and are widened where a float is wanted.
DTYPES = {"f64": np.float64, "f32": np.float32, "f16": np.float16, "bf16": np.uint16,
          "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "u8": np.uint8,
          "u16": np.uint16, "u32": np.uint32, "u64": np.uint64, "bool": np.bool_}
NAMES = {np.dtype(v): k for k, v in DTYPES.items() if k != "bf16"}


class Inputs:
    """The caller's memory, mapped read-only. It may have grown when a request names a place."""

    def __init__(self, descriptor):
        os.set_inheritable(descriptor, False)
        self.descriptor = descriptor
        self.map = None

    def array(self, dtype, shape, offset):
        """A view of the tensor there; raises Invalid where it does not lie in the memory."""
        count = 1
        for extent in shape:
            count *= extent
        size = count * np.dtype(DTYPES[dtype]).itemsize
        if offset < 0 or offset % ALIGN_BYTES:
            raise Invalid(f"offset {offset}: expected a multiple of {ALIGN_BYTES}")
        if self.map is None or offset + size > len(self.map):
            self._map(offset + size)
        return np.frombuffer(self.map, DTYPES[dtype], count, offset).reshape(shape)

    def _map(self, needed):
        length = os.fstat(self.descriptor).st_size
        if needed > length:
            raise Invalid(f"a tensor ends at byte {needed} of inputs that have {length}")
        self.map = mmap.mmap(self.descriptor, length, mmap.MAP_SHARED, mmap.PROT_READ)


class Outputs:
    """What an answer names. `begin` gives all of it free again."""

    def __init__(self, descriptor):
        os.set_inheritable(descriptor, False)
        self.descriptor = descriptor
        self.map = None
        self.used = 0

    def begin(self):
        self.used = 0

    def place(self, dtype, shape):
        """A writable array of the worker's own, and its offset."""
        dtype = np.dtype(dtype)
        offset = -(-self.used // ALIGN_BYTES) * ALIGN_BYTES
        count = int(np.prod(shape, dtype=np.int64))
        self.used = offset + count * dtype.itemsize
        if self.map is None or self.used > len(self.map):
            # It can only grow. Arrays of the mapping before this one see the same memory.
            length = max(self.used, 2 * len(self.map) if self.map else 1 << 20)
            os.ftruncate(self.descriptor, length)
            self.map = mmap.mmap(self.descriptor, length)
        return np.frombuffer(self.map, dtype, count, offset).reshape(shape), offset

    def put(self, name, array, batch):
        """Copies `array` out; the description for the answer."""
        array = np.asarray(array)
        to, offset = self.place(array.dtype, array.shape)
        to[...] = array
        return {"name": name, "batch": batch, "dtype": NAMES[array.dtype],
                "shape": list(array.shape), "offset": offset}
