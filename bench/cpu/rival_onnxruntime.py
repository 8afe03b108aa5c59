"""ONNX Runtime with inputs and outputs bound to the caller's memory. Small work runs as many nodes of one graph, as inside a model, so
that the call from Python does not count."""
import numpy

from contestant import CALLER, Contestant, PythonRun, Unsupported

MOST_NODES = 64
NODE_ELEMENTS = 1 << 19  # together, about


def graph(onnx, row, nodes, element):
    """`nodes` independent operations, x0 -> y0, x1 -> y1, ..., so that no two are the same to an optimiser."""
    helper = onnx.helper
    shape = list(row.shape if row.shape[2] > 1 else row.shape[:2])
    made, inputs, outputs, constants = [], [], [], []
    for i in range(nodes):
        x, y = f"x{i}", f"y{i}"
        inputs.append(helper.make_tensor_value_info(x, element, shape))
        result = list(shape)
        if row.operation == "softmax":
            made.append(helper.make_node("Softmax", [x], [y], axis=1))
        elif row.operation == "log_softmax":
            made.append(helper.make_node("LogSoftmax", [x], [y], axis=1))
        elif row.operation == "logsumexp":
            made.append(helper.make_node("ReduceLogSumExp", [x, "axes"], [y], keepdims=0))
            del result[1]
        elif row.operation == "masked_softmax":
            inputs.append(helper.make_tensor_value_info(f"mask{i}", onnx.TensorProto.BOOL, shape))
            made.append(helper.make_node("Where", [f"mask{i}", x, "lowest"], [f"z{i}"]))
            made.append(helper.make_node("Softmax", [f"z{i}"], [y], axis=1))
        else:
            raise Unsupported("no such operation")
        outputs.append(helper.make_tensor_value_info(y, element, result))
    if row.operation == "logsumexp":
        constants.append(onnx.numpy_helper.from_array(numpy.array([1], numpy.int64), "axes"))
    if row.operation == "masked_softmax":
        constants.append(helper.make_tensor("lowest", element, [], [-numpy.inf]))
    model = helper.make_model(helper.make_graph(made, "bench", inputs, outputs, constants),
                              opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    return model.SerializeToString()


def contestants():
    import onnx
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    elements = {"float32": onnx.TensorProto.FLOAT, "float64": onnx.TensorProto.DOUBLE,
                "float16": onnx.TensorProto.FLOAT16, "bfloat16": onnx.TensorProto.BFLOAT16}

    def prepare(row, pieces):
        if row.type != row.result_type:
            raise Unsupported("results of another type")
        nodes = 1 if row.mode != "cache" else max(1, min(MOST_NODES, NODE_ELEMENTS // row.elements))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = row.threads
        options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        try:
            session = onnxruntime.InferenceSession(graph(onnx, row, nodes, elements[row.type]), options,
                                                   providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no common class
            raise Unsupported(str(error).splitlines()[0][:100]) from error
        kind = elements[row.type]

        def bound(piece):
            binding = session.io_binding()
            for i in range(nodes):
                binding.bind_input(f"x{i}", "cpu", 0, kind, piece.x.shape, piece.x.ctypes.data)
                if piece.mask is not None:
                    binding.bind_input(f"mask{i}", "cpu", 0, onnx.TensorProto.BOOL, piece.mask.shape, piece.mask.ctypes.data)
                binding.bind_output(f"y{i}", "cpu", 0, kind, piece.y.shape, piece.y.ctypes.data)
            return lambda: session.run_with_iobinding(binding)
        return PythonRun([bound(piece) for piece in pieces], nodes)
    return [Contestant(f"ONNX Runtime {onnxruntime.__version__}", "onnxruntime", CALLER, prepare)]
