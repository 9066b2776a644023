# SPDX-License-Identifier: Apache-2.0
"""numpy's side of test_npy.c.

    peer_npy.py write FOLDER   save arrays of every dtype, order, endianness and version
    peer_npy.py check FOLDER   exit 1 unless the test wrote back the same arrays, as NAME.back.npy
"""
import pathlib
import sys

import numpy as np

DTYPES = "f8 f4 f2 i1 i2 i4 i8 u1 u2 u4 u8 b1".split()
SHAPES = [(), (5,), (2, 3), (3, 1, 4), (2, 3, 2, 2), (0, 3)]


def arrays():
    for code in DTYPES:
        for order in "<>":
            for k, shape in enumerate(SHAPES):
                count = int(np.prod(shape))
                values = (np.arange(count) * 37 % 101 - 50 * (code[0] in "fi")).reshape(shape)
                array = values.astype(order + code)
                for layout in "CF":
                    yield f"{code}{'le' if order == '<' else 'be'}{k}{layout}", \
                        np.asarray(array, order=layout)


def main() -> int:
    command, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    for i, (name, array) in enumerate(arrays()):
        if command == "write":
            with open(folder / f"{name}.npy", "wb") as file:
                np.lib.format.write_array(file, array, version=(1 + i % 3, 0))
        else:
            back = np.load(folder / f"{name}.npy.back")
            native = array.dtype.newbyteorder("=")
            if back.dtype != native or back.shape != array.shape or (back != array).any():
                print("differs:", name, file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
