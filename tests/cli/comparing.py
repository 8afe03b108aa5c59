"""`softmax compare`: its judge against long double, its hashes, its special rows, and what NumPy's row says."""

import os
import re

import numpy as np

from command import DATA, from_bfloat16, main, to_bfloat16
from formulas import EXACT, INF, FormulaTest, exact_logsumexp, exact_scores


def fnv1a(array):
    h = 0xCBF29CE484222325
    for byte in np.ascontiguousarray(array).tobytes():
        h = (h ^ byte) * 0x100000001B3 % 2**64
    return f"{h:016x}"


class Comparing(FormulaTest):
    def rows(self, *words, **more):
        """The table: name -> (special rows, max ULP, mean ULP, hash)."""
        text = self.succeed("compare", *words, **more).decode()
        self.text = text
        pattern = re.compile(
            r"^(naive|three-pass|online|NumPy \S+|libsoftmax \S+|theirs \d) +(ok|\d+ wrong) +(\S+) +(\S+)  ([0-9a-f]{16}) ", re.M
        )
        return {
            name.split()[0] if name.startswith("NumPy") else name: (
                special,
                float(most.replace("-", "nan", most == "-")),
                float(mean.replace("-", "nan", mean == "-")),
                bits,
            )
            for name, special, most, mean, bits in pattern.findall(text)
        }

    def ours(self, rows):
        """The row of every instruction set: all alike."""
        found = {row for name, row in rows.items() if name.startswith("libsoftmax")}
        self.assertEqual(len(found), 1, self.text)
        return found.pop()

    def test_judge_and_hash(self):
        """Errors of NumPy's float32 result, counted here in long double, are those in the table; so are hashes."""
        x = self.numbers(20, 300)
        rows = self.rows(self.save("x.npy", x))
        self.assertEqual(
            {"naive", "three-pass", "online", "NumPy"}, {name for name in rows if not name.startswith("lib")}
        )
        e = np.exp(x - x.max(-1, keepdims=True))
        for name, y in (("NumPy", e / e.sum(-1, keepdims=True)), ("libsoftmax portable", self.run_on(x))):
            exact = np.exp(exact_scores(x) - exact_logsumexp(exact_scores(x)))
            error = np.abs(y - exact) / np.spacing(exact.astype(np.float32))
            special, most, mean, bits = rows[name]
            self.assertEqual(special, "ok")
            self.assertAlmostEqual(most, float(error.max()), delta=1e-3)
            self.assertAlmostEqual(mean, float(error.mean()), delta=1e-3)
            self.assertEqual(bits, fnv1a(y))
        self.assertLess(self.ours(rows)[1], 2.5)
        self.assertRegex(self.text, r"judge: arithmetic of \d+ bits, 20 of 20 rows\n")

    def test_results_from_elsewhere(self):
        """They are judged as the command's own, in their place; SECONDS is shown."""
        x = self.numbers(8, 90)
        e = np.exp(x - x.max(-1, keepdims=True))
        self.save("r@.npy", e / e.sum(-1, keepdims=True))
        self.save("bad.npy", x * np.nan)
        rows = self.rows("--result", "theirs 1=r@.npy@0.002", "--result", "theirs 2=bad.npy", self.save("x.npy", x))
        self.assertEqual(rows["theirs 1"], rows["NumPy"])
        self.assertEqual(rows["theirs 2"][0], "8 wrong")
        self.assertRegex(self.text, r"\ntheirs 1 .* 2 ms ")
        self.assertRegex(self.text, r"\ntheirs 2 .* - +- +-\n")
        self.save("wrong.npy", x[:4])
        for words, status, line in [
            *[(["compare", "--result", word, "x.npy"], 2, f"--result {word}: allowed is NAME=FILE.npy or NAME=FILE.npy@SECONDS, NAME of at most 20 bytes")
              for word in ("theirs", "=r@.npy", "much too long a name for it=r@.npy", "theirs=")],
            (["compare", "--result", "theirs=none@x", "x.npy"], 1, "none@x: cannot be opened: No such file or directory"),
            (["compare", "--result", "theirs=wrong.npy", "x.npy"], 1, "wrong.npy: is not of the type, shape and C order of this output"),
            (["run", "--result", "theirs=r@.npy", "x.npy"], 2, "--result: is an option of compare, not of run"),
        ]:
            self.assertEqual(self.call(*words), (status, b"", f"softmax: {line}\n"))

    def test_judge_of_float64(self):
        """NumPy's float64 errors lie where those of its algorithm must, and ours under the bound."""
        x = self.numbers(10, 300, kind=np.float64)
        rows = self.rows(self.save("x.npy", x))
        exact = np.exp(exact_scores(x) - exact_logsumexp(exact_scores(x)))
        e = np.exp(x - x.max(-1, keepdims=True))
        error = np.abs(e / e.sum(-1, keepdims=True) - exact) / np.spacing(exact.astype(np.float64))
        self.assertAlmostEqual(rows["NumPy"][1], float(error.max()), delta=0.01)
        self.assertLess(self.ours(rows)[1], 2.5)

    def test_naive_fails_where_it_fails(self):
        x = self.numbers(8, 10)
        x[3, 2] = 89  # exp overflows
        x[5] -= 120  # everything underflows
        rows = self.rows(self.save("x.npy", x))
        self.assertEqual(rows["naive"][0], "2 wrong")
        for name in ("three-pass", "online", "NumPy"):
            self.assertEqual(rows[name][0], "ok")
        self.assertEqual(self.ours(rows)[0], "ok")

    def test_special_rows(self):
        x = self.numbers(6, 10)
        x[0, 3], x[1, 4], x[2, 5] = np.nan, INF, -INF
        x[3] = -INF
        for op in ("softmax", "log_softmax", "logsumexp"):
            for mode in ("nan", "zero"):
                rows = self.rows("--op", op, "--empty-rows", mode, self.save("x.npy", x))
                self.assertEqual(self.ours(rows)[0], "ok", self.text)
        for op in ("softmax", "log_softmax", "logsumexp"):
            for scale in ("0", "-1"):
                self.assertEqual(self.ours(self.rows("--op", op, "--scale", scale, "x.npy"))[0], "ok", self.text)
        naive = self.rows("x.npy")["naive"]
        self.assertEqual(naive[0], "1 wrong")  # beside +inf it has 0 where NaN is right
        self.assertEqual(self.rows("--empty-rows", "zero", "x.npy")["NumPy"][0], "1 wrong")  # NumPy has NaN there

    def test_every_operation(self):
        x = self.numbers(12, 40)
        x[0] = 0
        x[0, 0] = 10.68  # log_softmax there is -9e-4
        y, ly = self.run_on(x), self.run_on(x, "--op", "log_softmax")
        self.save("y.npy", y)
        self.save("ly.npy", ly)
        dy = self.save("dy.npy", self.numbers(12, 40, scale=1)[::-1].copy())
        targets = self.save("t.npy", np.arange(12) * 3)
        self.save("p.npy", y)
        weights = self.save("w.npy", np.linspace(0, 2, 40).astype(np.float32))
        self.save("x.npy", x)
        for words, bound in [
            (["--op", "log_softmax", "x.npy"], 2),
            (["--op", "logsumexp", "x.npy"], 1),
            (["--op", "softmax_backward", "--grad", dy, "y.npy"], 2),
            (["--op", "log_softmax_backward", "--grad", dy, "ly.npy"], 2),
            (["--op", "cross_entropy", "--targets", targets, "x.npy"], 2),
            (
                [
                    "--op",
                    "cross_entropy",
                    "--targets",
                    targets,
                    "--label-smoothing",
                    "0.1",
                    "--z-loss",
                    "0.01",
                    "--class-weights",
                    weights,
                    "--ignore-index",
                    "9",
                    "x.npy",
                ],
                3,
            ),
            (["--op", "cross_entropy", "--targets", "p.npy", "x.npy"], 3),
        ]:
            with self.subTest(words):
                rows = self.rows(*words)
                self.assertEqual(self.ours(rows)[0], "ok")
                self.assertLessEqual(self.ours(rows)[1], bound, self.text)
                self.assertEqual(rows["NumPy"][0], "ok", self.text)
                self.assertLess(rows["NumPy"][2], 1000, "the script for NumPy computes something else: " + self.text)

    def test_every_score_option(self):
        x = self.numbers(2, 6, 9)
        mask = self.save("m.npy", np.arange(9) % 3 != 1)
        bias = self.save("b.npy", np.where(np.arange(9) == 4, -INF, 0.5).astype(np.float32))
        lengths = self.save("l.npy", np.array([[4], [9]]))
        self.save("x.npy", x)
        for words in (
            ["--mask", mask],
            ["--mask", bias],
            ["--causal", "--causal-offset", "1"],
            ["--valid-lengths", lengths],
            ["--axis", "0"],
            ["--axis", "1"],
            ["--scale", "0.25"],
            ["--mask", bias, "--causal", "--valid-lengths", lengths, "--scale", "3"],
        ):
            for op in ("softmax", "log_softmax", "logsumexp"):
                with self.subTest((op, words)):
                    rows = self.rows("--op", op, *words, "x.npy")
                    for name, (special, most, mean, _) in rows.items():
                        self.assertEqual(special, "ok", (name, self.text))
                        if op != "log_softmax":  # whose values next to 0 NumPy loses
                            self.assertLess(mean, 50, (name, self.text))
                    self.assertLess(self.ours(rows)[1], 2.5, self.text)

    def test_softcap(self):
        rows = self.rows("--softcap", "4", self.save("x.npy", self.numbers(5, 30)))
        for special, _, mean, _ in rows.values():
            self.assertEqual(special, "ok", self.text)
            self.assertLess(mean, 10, self.text)
        self.assertIn("softcap's own rounding counts as error", self.text)

    def test_sixteen_bits(self):
        x = self.numbers(10, 64)
        rows = self.rows(self.save("h.npy", x.astype(np.float16)))
        self.assertLessEqual(self.ours(rows)[1], 0.51)
        self.assertLess(rows["three-pass"][1], 0.6)
        rows = self.rows("--dtype", "bfloat16", self.save("b.npy", to_bfloat16(x)))
        self.assertLessEqual(self.ours(rows)[1], 0.51)
        self.assertLess(rows["three-pass"][1], 0.6)
        self.assertIn("NumPy has no bfloat16\n", self.text)
        self.assertEqual(self.ours(rows)[3], fnv1a(self.run_on(to_bfloat16(x), "--dtype", "bfloat16")))
        self.assertGreater(from_bfloat16(self.load("y.npy")).sum(), 9.9)

    def test_pipe_and_samples(self):
        self.save("x.npy", self.numbers(4000, 100))
        piped = self.rows("-", stdin=(self.folder / "x.npy").read_bytes())
        self.assertIn("2621 of 4000 rows", self.text)
        self.assertEqual(piped["NumPy"], self.rows("x.npy")["NumPy"])

    def test_without_numpy(self):
        rows = self.rows(self.save("x.npy", self.numbers(2, 3)), environment={"SOFTMAX_PYTHON": "false"})
        self.assertNotIn("NumPy", rows)
        self.assertIn("NumPy: not there", self.text)
        self.ours(rows)

    def test_real_data(self):
        sharpened = self.rows(
            "--scale", "20", "--mask", str(DATA / "attention_mask.npy"), str(DATA / "attention_scores.npy")
        )
        self.assertRegex(sharpened["naive"][0], "wrong")
        self.assertEqual(self.ours(sharpened)[0], "ok")
        self.assertLessEqual(self.ours(sharpened)[1], 2.1)
        logits = self.rows(str(DATA / "logits.npy"))
        self.assertLessEqual(self.ours(logits)[1], 2.1)
        self.assertGreater(logits["NumPy"][1], self.ours(logits)[1])

    def test_no_scratch_is_left(self):
        folder = self.folder / "scratch"
        folder.mkdir()
        self.save("x.npy", self.numbers(2, 3))
        self.succeed("compare", "-", stdin=(self.folder / "x.npy").read_bytes(), environment={"TMPDIR": str(folder)})
        self.assertEqual(os.listdir(folder), [])


if __name__ == "__main__":
    main()
