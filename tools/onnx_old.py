# SPDX-License-Identifier: Apache-2.0
"""Models of before operator set 7, which ONNX Runtime does not read, in newer words."""


def modernised(path):
    """The bytes of the model at `path` with operator set 13; for what the given models use."""
    import numpy as np
    import onnx

    model = onnx.load(path)
    weights = {t.name: t for t in model.graph.initializer}
    for node in model.graph.node:
        attributes = {a.name: list(a.ints) or a.i for a in node.attribute}  # untyped in IR 1
        if node.op_type == "Add" and attributes.get("broadcast"):
            bias = onnx.numpy_helper.to_array(weights[node.input[1]]).reshape(-1, 1, 1)
            weights[node.input[1]].CopyFrom(
                onnx.numpy_helper.from_array(bias, node.input[1]))
            del node.attribute[:]
        elif node.op_type == "Reshape" and "shape" in attributes:
            name = node.output[0] + ".shape"
            shape = onnx.numpy_helper.from_array(np.array(attributes["shape"], np.int64), name)
            model.graph.initializer.append(shape)
            node.input.append(name)
            del node.attribute[:]
        else:  # IR 1 did not tell the types of attributes
            del node.attribute[:]
            node.attribute.extend(onnx.helper.make_attribute(*a) for a in attributes.items())
    for value in list(model.graph.input):
        if value.name in weights:
            model.graph.input.remove(value)
    del model.opset_import[:]
    model.opset_import.append(onnx.helper.make_opsetid("", 13))
    model.ir_version = 8
    return model.SerializeToString()
