"""Other people's tests: the ONNX backend node tests of the family, from the package onnx, with this library for the operators."""
import re
import warnings

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

import libsoftmax

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the package computes what its other operators expect
    from onnx.backend.test.loader import load_model_tests

    CASES = [case for case in load_model_tests(kind="node")
             if re.match(r"test_(softmax|logsoftmax|reduce_log_sum_exp|sce|nllloss)_", case.name)]
PLAIN = {case.name: case for case in CASES if "_expanded" not in case.name}


class Softmax(OpRun):
    def _run(self, x, axis=-1):
        return (libsoftmax.softmax(x, axis),)


class LogSoftmax(OpRun):
    def _run(self, x, axis=-1):
        return (libsoftmax.log_softmax(x, axis),)


class ReduceLogSumExp(OpRun):
    def _run(self, x, axes=None, keepdims=1, noop_with_empty_axes=0):
        if axes is not None:
            axes = tuple(int(a) for a in np.atleast_1d(axes))
        if not axes:
            if noop_with_empty_axes:
                return (x,)
            axes = None
        return (np.asarray(libsoftmax.logsumexp(x, axes, keepdims=bool(keepdims))),)


class SoftmaxCrossEntropyLoss(OpRun):
    def _run(self, x, target, weight=None, ignore_index=None, reduction="mean"):
        loss = libsoftmax.cross_entropy(x, target, 1, class_weights=weight, reduction=reduction, ignore_index=ignored(ignore_index))
        # The second output is optional: what is not asked for is dropped.
        return (np.asarray(loss), libsoftmax.log_softmax(x, 1))[: len(self.onnx_node.output)]


class NegativeLogLikelihoodLoss(OpRun):
    """-w_t x_t is w_t (l - x_t) - w_t l for any l: the loss without its logsumexp."""

    def _run(self, x, target, weight=None, ignore_index=None, reduction="mean"):
        loss, lse = libsoftmax.cross_entropy(x, target, 1, class_weights=weight, reduction="none", row_logsumexp=True,
                                             ignore_index=ignored(ignore_index))
        kept = target != ignored(ignore_index)
        weights = np.where(kept, 1 if weight is None else np.take(weight, np.where(kept, target, 0)), 0).astype(x.dtype)
        loss = loss - weights * lse
        if reduction == "none":
            return (loss,)
        return (np.asarray(loss.sum() / (weights.sum() if reduction == "mean" else 1), x.dtype),)


def ignored(index):
    """ONNX ignores nothing by default; this library -100."""
    return -(2**62) if index is None else index


OURS = [Softmax, LogSoftmax, ReduceLogSumExp, SoftmaxCrossEntropyLoss, NegativeLogLikelihoodLoss]
NAMES = {op.__name__ for op in OURS}


def check(case, model):
    for inputs, outputs in case.data_sets:
        feeds = dict(zip((i.name for i in model.graph.input), inputs))
        results = ReferenceEvaluator(model, new_ops=OURS).run(None, feeds)
        assert len(results) == len(outputs)
        for result, expected in zip(results, outputs):
            assert result.dtype == expected.dtype and result.shape == expected.shape
            np.testing.assert_allclose(result, expected, rtol=case.rtol, atol=case.atol)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_node(case):
    if {node.op_type for node in case.model.graph.node} & NAMES:
        check(case, case.model)
        return
    # An expanded form of other operators: what it gives and what it expects are both ours.
    plain = PLAIN[re.sub(r"_expanded.*", "", case.name)]
    for inputs, outputs in case.data_sets:
        feeds = dict(zip((i.name for i in case.model.graph.input), inputs))
        expanded = ReferenceEvaluator(case.model).run(None, feeds)
        ours = ReferenceEvaluator(plain.model, new_ops=OURS).run(None, dict(zip((i.name for i in plain.model.graph.input), inputs)))
        for result, theirs, expected in zip(ours, expanded, outputs):
            np.testing.assert_allclose(result, expected, rtol=case.rtol, atol=case.atol)
            np.testing.assert_allclose(result, theirs, rtol=case.rtol, atol=case.atol)


def test_all_are_there():
    assert len(CASES) >= 164 and {node.op_type for case in PLAIN.values() for node in case.model.graph.node} == NAMES
