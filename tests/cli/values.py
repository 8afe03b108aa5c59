"""Every operation and option of `softmax run` against the formulas of softmax.h in long double, with errors in ULP.

This checks that each option reaches the right argument of the library, which its own tests judge by MPFR."""

import numpy as np

from command import from_bfloat16, main, to_bfloat16
from formulas import EXACT, INF, FormulaTest, exact_logsumexp, exact_scores


class Values(FormulaTest):
    def assert_softmax(self, y, z, axis=-1, most=2.5):
        exact = np.exp(z - exact_logsumexp(z, axis))
        self.assertTrue(np.all(y[exact == 0] == 0))
        self.assert_ulp(y, exact, most)

    def assert_scores(self, x, options, axis=-1, **meaning):
        """softmax and logsumexp with the options."""
        z = exact_scores(x, axis, **meaning)
        with np.errstate(divide="ignore"):
            exact = exact_logsumexp(z, axis).squeeze(axis)
        self.assert_softmax(self.run_on(x, "--axis", axis, *options), z, axis)
        got = self.run_on(x, "--op", "logsumexp", "--axis", axis, *options)
        size = np.maximum(np.abs(exact), np.abs(z.max(axis)))
        self.assert_ulp(got, exact, 1.01, size)

    def test_float32(self):
        for n in (1, 2, 7, 100, 1000):
            self.assert_scores(self.numbers(5, n), [])

    def test_float64(self):
        self.assert_scores(self.numbers(4, 33, kind=np.float64)[:, :8], [], axis=-1)

    def test_float16(self):
        x = self.numbers(6, 50, kind=np.float16)
        y = self.run_on(x)
        self.assertEqual(y.dtype, np.float16)
        self.assert_softmax(y, exact_scores(x), most=0.51)
        lse = self.run_on(x, "--op", "logsumexp")
        self.assertEqual(lse.dtype, np.float32)
        self.assert_ulp(lse, exact_logsumexp(exact_scores(x)).squeeze(-1), 1.01, size=np.full(6, 16.0))

    def test_bfloat16(self):
        bits = to_bfloat16(self.numbers(6, 50))
        y = self.run_on(bits, "--dtype", "bfloat16")
        self.assertEqual(y.dtype, np.uint16)
        z = exact_scores(from_bfloat16(bits))
        exact = np.exp(z - exact_logsumexp(z))
        unit = np.spacing(exact.astype(np.float32)).astype(EXACT) * 65536
        self.assertLessEqual((np.abs(from_bfloat16(y) - exact) / unit).max(), 0.51)

    def test_axis(self):
        x = self.numbers(3, 4, 5, 6)
        for axis in range(-4, 4):
            self.assert_scores(x, [], axis=axis)

    def test_log_softmax(self):
        x = self.numbers(4, 31)
        x[0] = [40] + [0] * 30
        z = exact_scores(x)
        top = z.max(-1, keepdims=True)
        rest = np.sort(np.exp(z - top), axis=-1)[:, :-1].sum(
            -1, keepdims=True
        )  # right also where the probability is next to 1
        exact = z - top - np.log1p(rest)
        self.assert_ulp(self.run_on(x, "--op", "log_softmax"), exact, 2)
        y = self.run_on(x, "--op", "log_softmax", "--valid-lengths", self.save("l.npy", np.int32(3)))
        self.assertTrue(np.all(np.isneginf(y[:, 3:])) and np.all(np.isfinite(y[:, :3])))

    def test_scale(self):
        for scale in (0.125, 20, -1.5, 0):
            self.assert_scores(self.numbers(5, 40), ["--scale", scale], scale=scale)

    def test_softcap(self):
        x = self.numbers(5, 40, scale=1)
        z = exact_scores(x, softcap=3.0)
        y = self.run_on(x, "--softcap", 3)
        self.assert_softmax(
            y, z, most=16
        )  # our tanh and the correctly rounded one may differ by an ULP of a score of 3
        self.assertGreater(np.abs(y - self.run_on(x)).max(), 1e-4)

    def test_boolean_mask(self):
        x = self.numbers(4, 3, 10)
        mask = np.random.default_rng(3).random((4, 1, 10)) < 0.6
        mask[..., 0] = True
        x[:, :, 1] = np.where(mask[:, :, 1], x[:, :, 1], np.nan)  # what is masked is never used
        clean = np.where(mask, x, 0).astype(np.float32)
        for kind in (bool, np.uint8):
            file = self.save("m.npy", mask if kind == bool else mask.astype(kind) * np.uint8(7))
            z = exact_scores(clean, mask=mask)
            self.assert_softmax(self.run_on(x, "--mask", file), z)

    def test_additive_mask(self):
        x = self.numbers(4, 3, 10)
        bias = self.numbers(3, 10, scale=2)
        bias[1, 4:] = -INF
        self.assert_scores(x, ["--mask", self.save("m.npy", bias)], bias=bias)
        self.assert_scores(x, ["--mask", "m.npy", "--scale", 0.3], bias=bias, scale=0.3)

    def test_causal(self):
        x = self.numbers(2, 5, 8)
        self.assert_scores(x, ["--causal"], causal=0)
        self.assert_scores(x, ["--causal", "--causal-offset", 3], causal=3)
        y = self.run_on(x, "--causal", "--causal-offset", -2)
        self.assertTrue(np.all(np.isnan(y[:, :2])))
        y = self.run_on(x, "--causal", "--causal-offset", -2, "--empty-rows", "zero")
        self.assertTrue(np.all(y[:, :2] == 0) and np.all(np.isfinite(y)))

    def test_valid_lengths(self):
        x = self.numbers(2, 5, 8)
        for kind in (np.int32, np.int64):
            lengths = np.array([[1, 2, 3, 99, 8]] * 2, kind)
            self.assert_scores(x, ["--valid-lengths", self.save("l.npy", lengths)], lengths=lengths)
        lengths = np.array([[2], [7]])
        self.assert_scores(x, ["--valid-lengths", self.save("l.npy", lengths)], lengths=lengths)
        lengths = np.array([1, 2, 3, 4, 5, 6, 7, 8])
        self.assert_scores(x, ["--valid-lengths", self.save("l.npy", lengths)], axis=1, lengths=lengths)

    def test_empty_rows(self):
        x = self.numbers(3, 4)
        x[1] = -INF
        for op in ("softmax", "log_softmax"):
            self.assertTrue(np.all(np.isnan(self.run_on(x, "--op", op)[1])))
        self.assertTrue(np.all(self.run_on(x, "--empty-rows", "zero")[1] == 0))
        self.assertEqual(self.run_on(x, "--op", "logsumexp")[1], -INF)

    def test_threads_and_isa(self):
        x = self.numbers(64, 1000)
        y = self.run_on(x)
        lines = self.succeed("info").decode().splitlines()
        names = [line.split()[0] for line in lines if line.startswith("  ") and "available" in line]
        self.assertIn("portable", names)
        for name in names:
            np.testing.assert_array_equal(self.run_on(x, "--isa", name), y)
            status, _, _ = self.call("run", "x.npy", "-o", "z.npy", environment={"SOFTMAX_ISA": name})
            self.assertEqual(status, 0)
            np.testing.assert_array_equal(self.load("z.npy"), y)
        for threads in (0, 1, 2, 3):
            np.testing.assert_array_equal(self.run_on(x, "--threads", threads), y)

    def test_softmax_backward(self):
        y, dy = self.run_on(self.numbers(4, 30)), self.numbers(4, 30, scale=1)[::-1].copy()
        got = self.run_on(y, "--op", "softmax_backward", "--grad", self.save("dy.npy", dy))
        y, dy = y.astype(EXACT), dy.astype(EXACT)
        exact = y * (dy - (dy * y).sum(-1, keepdims=True))
        self.assert_ulp(got, exact, 2, y * (np.abs(dy) + np.abs(dy * y).sum(-1, keepdims=True)))
        zeros = self.run_on(
            np.zeros((2, 3), np.float32),
            "--op",
            "softmax_backward",
            "--grad",
            self.save("one.npy", np.ones((2, 3), np.float32)),
            "--empty-rows",
            "zero",
        )
        self.assertTrue(np.all(zeros == 0))

    def test_log_softmax_backward(self):
        y, dy = self.run_on(self.numbers(6, 5), "--op", "log_softmax", "--axis", 0), self.numbers(6, 5, scale=1)
        got = self.run_on(y, "--op", "log_softmax_backward", "--axis", 0, "--grad", self.save("dy.npy", dy))
        y, dy = y.astype(EXACT), dy.astype(EXACT)
        exact = dy - np.exp(y) * dy.sum(0, keepdims=True)
        self.assert_ulp(got, exact, 2, np.abs(dy) + np.exp(y) * np.abs(dy).sum(0, keepdims=True))


if __name__ == "__main__":
    main()
