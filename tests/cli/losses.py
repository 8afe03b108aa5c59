"""cross_entropy of `softmax run`: every option against softmax.h's formula in long double, loss and gradient."""

import numpy as np

from command import main
from formulas import EXACT, FormulaTest, exact_logsumexp, exact_scores


def exact_loss(
    x,
    targets,
    weights=None,
    smoothing=0.0,
    z_loss=0.0,
    ignore=-100,
    softcap=0.0,
    mask=None,
    reduction="mean",
    upstream=1.0,
):
    """Loss, gradient and their magnitudes, classes on the last axis."""
    z = exact_scores(x, softcap=softcap, mask=mask)
    classes = x.shape[-1]
    weights = np.ones(classes, EXACT) if weights is None else weights.astype(EXACT)
    smoothing = EXACT(smoothing)
    if np.issubdtype(targets.dtype, np.floating):
        kept, share, divisor = np.ones(x.shape[:-1], bool), targets.astype(EXACT), None
    else:
        kept = targets != ignore
        share = (np.arange(classes) == targets[..., None]).astype(EXACT)
        divisor = weights[np.where(kept, targets, 0)][kept].sum()
    factor = weights * ((1 - smoothing) * share + smoothing / classes)
    factor = np.where(np.isfinite(z), factor, 0)
    lse = exact_logsumexp(z)
    terms = np.where(factor != 0, factor * np.where(factor != 0, lse - z, 0), 0).sum(-1)
    extra = EXACT(z_loss) * lse[..., 0] ** 2
    rows = EXACT(kept.sum())
    divisor = (rows if divisor is None else divisor) if reduction == "mean" else EXACT(1)
    rows = rows if reduction == "mean" else EXACT(1)
    loss = np.where(kept, terms / divisor + extra / rows, 0)
    p = np.exp(z - lse)
    total = factor.sum(-1, keepdims=True)
    slope = 1 - np.tanh(x.astype(EXACT) / EXACT(softcap)) ** 2 if softcap else EXACT(1)
    pull = 2 * EXACT(z_loss) * lse * p / rows
    up = np.asarray(upstream, EXACT)
    up = up[..., None] if up.ndim else up
    gradient = np.where(kept[..., None], ((p * total - factor) / divisor + pull) * slope * up, 0)
    size = np.where(kept[..., None], ((p * total + factor) / divisor + np.abs(pull)) * np.abs(slope * up), 0)
    return (loss if reduction == "none" else loss.sum()), gradient, size


class Losses(FormulaTest):
    def assert_loss(self, x, targets, options=(), loss_most=3.0, gradient_most=3.0, **meaning):
        for reduction in ("none", "sum", "mean"):
            loss, gradient, size = exact_loss(x, targets, reduction=reduction, **meaning)
            self.save("t.npy", targets)
            got = self.run_on(
                x,
                "--op",
                "cross_entropy",
                "--targets",
                "t.npy",
                "--reduction",
                reduction,
                "--gradient",
                "g.npy",
                *options
            )
            self.assertEqual(got.dtype, np.float64 if x.dtype == np.float64 else np.float32)
            self.assert_ulp(got, np.asarray(loss), loss_most)
            self.assert_ulp(self.load("g.npy"), gradient, gradient_most, size)

    def setUp(self):
        super().setUp()
        self.x = self.numbers(7, 11)
        self.targets = np.array([0, 10, 3, 3, 5, 9, 1])

    def test_targets(self):
        self.assert_loss(self.x, self.targets)
        self.assert_loss(self.x, self.targets.astype(np.int32))
        self.assert_loss(self.x.astype(np.float64)[:, :6], self.targets % 6)

    def test_confident(self):
        x = np.array([[40, 0, 0]], np.float32)
        self.succeed(
            "run",
            "--op",
            "cross_entropy",
            "--targets",
            self.save("t.npy", np.array([0])),
            self.save("x.npy", x),
            "-o",
            "l.npy",
            "--gradient",
            "g.npy",
        )
        exact = np.longdouble("8.4967087e-18")
        np.testing.assert_allclose(self.load("l.npy"), exact, rtol=3e-7)
        np.testing.assert_allclose(self.load("g.npy")[0, 0], -exact, rtol=3e-7)

    def test_ignore_index(self):
        targets = self.targets.copy()
        targets[2] = -100
        self.assert_loss(self.x, targets)
        targets[2] = 4
        self.assert_loss(self.x, targets, ["--ignore-index", 4], ignore=4)

    def test_every_row_ignored(self):
        targets = np.full(7, -100)
        self.save("t.npy", targets)
        mean = self.run_on(self.x, "--op", "cross_entropy", "--targets", "t.npy")
        self.assertTrue(np.isnan(mean))
        self.assertEqual(self.run_on(self.x, "--op", "cross_entropy", "--targets", "t.npy", "--empty-rows", "zero"), 0)

    def test_label_smoothing(self):
        self.assert_loss(self.x, self.targets, ["--label-smoothing", 0.1], smoothing=0.1)

    def test_z_loss(self):
        self.assert_loss(self.x, self.targets, ["--z-loss", 0.01], z_loss=0.01)

    def test_class_weights(self):
        weights = (np.arange(11) / 7).astype(np.float32)
        weights[0] = 0
        file = self.save("w.npy", weights)
        self.assert_loss(self.x, self.targets, ["--class-weights", file], weights=weights)
        self.assert_loss(
            self.x,
            self.targets,
            ["--class-weights", file, "--label-smoothing", 0.2, "--z-loss", 0.1],
            weights=weights,
            smoothing=0.2,
            z_loss=0.1,
        )

    def test_softcap(self):
        self.assert_loss(self.x, self.targets, ["--softcap", 5], softcap=5.0, loss_most=16, gradient_most=40)

    def test_mask(self):
        mask = np.ones(11, bool)
        mask[[2, 4]] = False
        self.assert_loss(self.x, self.targets % 2, ["--mask", self.save("m.npy", mask)], mask=mask)

    def test_probabilities(self):
        p = self.run_on(self.numbers(7, 11, scale=1))
        self.assert_loss(self.x, p)
        self.assert_loss(self.x, p, ["--label-smoothing", 0.1], smoothing=0.1)

    def test_upstream_gradient(self):
        self.assert_loss(self.x, self.targets, ["--grad-output", self.save("u.npy", np.float32(-2.5))], upstream=-2.5)
        upstream = np.linspace(-1, 3, 7).astype(np.float32)
        _, gradient, size = exact_loss(self.x, self.targets, reduction="none", upstream=upstream)
        self.save("t.npy", self.targets)
        self.run_on(
            self.x,
            "--op",
            "cross_entropy",
            "--targets",
            "t.npy",
            "--reduction",
            "none",
            "--gradient",
            "g.npy",
            "--grad-output",
            self.save("u.npy", upstream),
        )
        self.assert_ulp(self.load("g.npy"), gradient, 3, size)

    def test_axis(self):
        x = self.numbers(3, 11, 4)
        targets = np.arange(12).reshape(3, 4) % 11
        _, exact, size = exact_loss(np.moveaxis(x, 1, -1), targets)
        self.save("t.npy", targets)
        self.run_on(x, "--op", "cross_entropy", "--axis", 1, "--targets", "t.npy", "--gradient", "g.npy")
        self.assert_ulp(np.moveaxis(self.load("g.npy"), 1, -1), exact, 3, size)

    def test_inputs_are_not_written(self):
        self.save("t.npy", self.targets)
        self.run_on(self.x, "--op", "cross_entropy", "--targets", "t.npy", "--gradient", "g.npy")
        np.testing.assert_array_equal(self.load("x.npy"), self.x)


if __name__ == "__main__":
    main()
