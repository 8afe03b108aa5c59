"""OpenVINO's CPU plugin with inputs and outputs in the caller's memory."""
import numpy

from contestant import CALLER, Contestant, PythonRun, Unsupported


def contestants():
    import openvino
    from openvino import opset13
    core = openvino.Core()
    types = {"float32": openvino.Type.f32, "float64": openvino.Type.f64, "float16": openvino.Type.f16,
             "bfloat16": openvino.Type.bf16}

    def model(row, shape):
        x = opset13.parameter(shape, types[row.type])
        inputs = [x]
        if row.operation == "softmax":
            y = opset13.softmax(x, 1)
        elif row.operation == "log_softmax":
            y = opset13.log_softmax(x, 1)
        elif row.operation == "masked_softmax":
            mask = opset13.parameter(shape, openvino.Type.boolean)
            inputs.append(mask)
            y = opset13.softmax(opset13.select(mask, x, opset13.constant(-numpy.inf, types[row.type])), 1)
        else:
            raise Unsupported("not written for this operation")
        return openvino.Model([y], inputs, "bench")

    def tensor(array, row):
        if row.type == "bfloat16" and array.dtype == numpy.uint16:
            return openvino.Tensor(array, openvino.Shape(list(array.shape)), openvino.Type.bf16)
        return openvino.Tensor(array, shared_memory=True)

    def prepare(row, pieces):
        if row.type not in ("float32", "bfloat16", "float16"):
            raise Unsupported("computes in float32")
        settings = {"INFERENCE_NUM_THREADS": row.threads, "NUM_STREAMS": "1", "PERFORMANCE_HINT": "LATENCY"}
        if row.type == "float32":
            settings["INFERENCE_PRECISION_HINT"] = "f32"
        compiled = core.compile_model(model(row, list(pieces[0].x.shape)), "CPU", settings)

        def call(piece):
            request = compiled.create_infer_request()
            request.set_input_tensor(0, tensor(piece.x, row))
            if piece.mask is not None:
                request.set_input_tensor(1, tensor(piece.mask.view(bool), row))
            request.set_output_tensor(0, tensor(piece.y, row))
            return lambda: request.infer()
        return PythonRun([call(piece) for piece in pieces])

    version = openvino.__version__.split("-")[0]
    return [Contestant(f"OpenVINO {version}", "openvino", CALLER, prepare)]
