"""Files and pipes: versions of .npy, orders, empty arrays, whole outputs, memory, what is printed."""

import os
import pty
import resource
import signal
import stat
import subprocess
import time

import numpy as np

from command import COMMAND, CommandTest, main

X = np.random.default_rng(1).standard_normal((6, 5, 7)).astype(np.float32)


class Files(CommandTest):
    def test_npy_versions(self):
        y = self.run_on(X)
        for version in ((1, 0), (2, 0), (3, 0)):
            with open(self.folder / "v.npy", "wb") as file:
                np.lib.format.write_array(file, X, version)
            self.succeed("run", "v.npy", "-o", "w.npy")
            np.testing.assert_array_equal(self.load("w.npy"), y)

    def test_header_as_others_write_it(self):
        """Other quotes, other order of keys, data at an odd offset."""
        text = b'{ "shape":(6,5,7) ,"fortran_order" : False,"descr":"<f4"}   \n'
        (self.folder / "o.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + X.tobytes())
        self.assertEqual((10 + len(text)) % 2, 1)
        self.succeed("run", "o.npy", "-o", "w.npy")
        np.testing.assert_array_equal(self.load("w.npy"), self.run_on(X))

    def test_output_is_numpys(self):
        """The file is byte for byte what np.save writes."""
        for x in (X, X[0, 0], np.asfortranarray(X)):
            y = self.run_on(x)
            np.save(self.folder / "z.npy", y)
            self.assertEqual((self.folder / "y.npy").read_bytes(), (self.folder / "z.npy").read_bytes())

    def test_fortran_order(self):
        for axis in range(3):
            y = self.run_on(X, "--axis", axis)
            z = self.run_on(np.asfortranarray(X), "--axis", axis)
            self.assertTrue(z.flags.f_contiguous)
            np.testing.assert_array_equal(y, z)
            np.testing.assert_array_equal(
                self.run_on(X, "--axis", axis, "--op", "logsumexp"),
                self.run_on(np.asfortranarray(X), "--axis", axis, "--op", "logsumexp"),
            )
        mask = np.asfortranarray(X > 0)
        np.testing.assert_array_equal(
            self.run_on(X, "--mask", self.save("m.npy", mask)),
            self.run_on(X, "--mask", self.save("m.npy", np.ascontiguousarray(mask))),
        )

    def test_pipes(self):
        self.run_on(X)
        x, y = (self.folder / "x.npy").read_bytes(), (self.folder / "y.npy").read_bytes()
        self.assertEqual(self.succeed("run", "-", "-o", "-", stdin=x), y)
        self.assertEqual(self.succeed("run", "x.npy", "-o", "-"), y)
        self.assertEqual(
            self.succeed("run", "-", "--mask", self.save("m.npy", np.ones(7, bool)), "-o", "-", stdin=x), y
        )
        self.assertEqual(self.succeed("run", "x.npy", "-o", "/dev/stdout"), y)
        self.succeed("run", "x.npy", "-o", "/dev/null")
        chained = subprocess.run(
            f"{COMMAND} run --op log_softmax - -o - < x.npy | {COMMAND} run - -o z.npy", shell=True, cwd=self.folder
        )
        self.assertEqual(chained.returncode, 0)
        np.testing.assert_allclose(self.load("z.npy"), self.load("y.npy"), rtol=1e-6)

    def test_empty_arrays(self):
        for shape in ((10, 0), (0, 10), (0, 0), (0,), (3, 0, 4)):
            x = np.zeros(shape, np.float32)
            for axis in range(len(shape)):
                self.assertEqual(self.run_on(x, "--axis", axis).shape, shape)
                lse = self.run_on(x, "--op", "logsumexp", "--axis", axis)
                np.testing.assert_array_equal(lse, np.full(shape[:axis] + shape[axis + 1 :], -np.inf, np.float32))
            self.succeed("compare", "x.npy")

    def test_over_its_own_input(self):
        y = self.run_on(X)
        self.succeed("run", "x.npy", "-o", "x.npy")
        np.testing.assert_array_equal(self.load("x.npy"), y)

    def test_output_replaces_whole(self):
        """An older file stays as it is until the new one is complete; a link's target is replaced, not the link."""
        (self.folder / "old.npy").write_bytes(b"old")
        (self.folder / "link.npy").symlink_to("old.npy")
        self.save("x.npy", X)
        status, _, _ = self.call("run", "x.npy", "--axis", "9", "-o", "old.npy")
        self.assertEqual((status, (self.folder / "old.npy").read_bytes()), (2, b"old"))
        self.succeed("run", "x.npy", "-o", "link.npy")
        self.assertTrue((self.folder / "link.npy").is_symlink())
        self.assertEqual(self.load("old.npy").shape, X.shape)
        mask = os.umask(0)
        os.umask(mask)
        self.assertEqual(stat.S_IMODE((self.folder / "old.npy").stat().st_mode), 0o666 & ~mask)

    def test_no_room(self):
        self.save("x.npy", np.zeros((1000, 1000), np.float32))
        limited = subprocess.run(
            [COMMAND, "run", "x.npy", "-o", "y.npy"],
            cwd=self.folder,
            capture_output=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
        )
        self.assertNotEqual(limited.returncode, 0)
        self.assertEqual([p.name for p in self.folder.iterdir()], ["x.npy"])
        full = subprocess.run(f"{COMMAND} run x.npy -o - > /dev/full", shell=True, cwd=self.folder, capture_output=True)
        self.assertEqual(
            (full.returncode, full.stderr), (1, b"softmax: -: cannot be written: No space left on device\n")
        )

    def sparse(self, name, rows, columns):
        with open(self.folder / name, "wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": "<f4", "fortran_order": False, "shape": (rows, columns)}
            )
            file.truncate(file.tell() + 4 * rows * columns)

    def test_interrupted(self):
        self.sparse("big.npy", 1 << 15, 1 << 14)
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([COMMAND, "run", "big.npy", "-o", "y.npy"], cwd=self.folder)
            end = time.monotonic() + 20
            while not list(self.folder.glob(".softmax-*")) and time.monotonic() < end:
                time.sleep(0.005)
            self.assertTrue(list(self.folder.glob(".softmax-*")), "it was over before the signal")
            process.send_signal(number)
            self.assertEqual(process.wait(20), -number)
            self.assertEqual([p.name for p in self.folder.iterdir()], ["big.npy"])

    def test_memory_is_bounded(self):
        """256 MB in and 256 MB out, along both axes, in less than half of that."""
        self.sparse("big.npy", 64, 1 << 20)
        for axis in (0, 1):
            process = subprocess.Popen(
                [COMMAND, "run", "--axis", str(axis), "big.npy", "-o", f"y{axis}.npy"], cwd=self.folder
            )
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = status
            self.assertEqual(status, 0)
            self.assertLess(usage.ru_maxrss, 220 << 10, f"KiB along axis {axis}")
        for axis in (0, 1):  # after both, for what this process holds counts for a child until its exec
            y = np.load(self.folder / f"y{axis}.npy", mmap_mode="r")
            self.assertTrue(np.all(y[::37, ::4099] == np.float32(1) / y.shape[axis]))

    def test_pieces_change_nothing(self):
        """An array of several pieces equals its parts computed alone, with everything that has to be cut along."""
        rng = np.random.default_rng(5)
        x = rng.standard_normal((3, 40, 200, 1000)).astype(np.float32)
        lengths = rng.integers(0, 1100, (40, 1))
        bias = rng.standard_normal((40, 1, 1000)).astype(np.float32)
        options = [
            "--valid-lengths",
            "l.npy",
            "--mask",
            "b.npy",
            "--causal",
            "--causal-offset",
            500,
            "--empty-rows",
            "zero",
        ]
        self.save("l.npy", lengths)
        self.save("b.npy", bias)
        whole, lse = self.run_on(x, *options), self.run_on(x, *options, "--op", "logsumexp")
        self.assertGreater(x.nbytes, 64 << 20)
        for i, j in ((0, 0), (1, 39), (2, 20)):
            self.save("l.npy", lengths[j])
            self.save("b.npy", bias[j])
            np.testing.assert_array_equal(self.run_on(x[i, j], *options), whole[i, j])
            np.testing.assert_array_equal(self.run_on(x[i, j], *options, "--op", "logsumexp"), lse[i, j])

    def test_pieces_along_the_queries(self):
        """A causal matrix is cut along the dimension that the causal rule counts."""
        x = np.random.default_rng(6).standard_normal((20000, 1000)).astype(np.float32)
        self.assertGreater(x.nbytes, 64 << 20)
        whole = self.run_on(x, "--causal", "--causal-offset", -15000)
        part = self.run_on(x[15400:15500], "--causal", "--causal-offset", 400)
        np.testing.assert_array_equal(whole[15400:15500], part)
        self.assertTrue(np.all(part[0, :401] > 0) and np.all(part[0, 401:] == 0))

    def test_pieces_behind_the_axis(self):
        """A result without the axis is cut along dimensions that have other numbers there."""
        x = np.random.default_rng(7).standard_normal((8, 100, 25000)).astype(np.float32)
        self.assertGreater(x.nbytes, 64 << 20)
        lse = self.run_on(x, "--axis", 0, "--op", "logsumexp")
        for j in (0, 50, 99):
            np.testing.assert_array_equal(self.run_on(x[:, j], "--axis", 0, "--op", "logsumexp"), lse[j])

    def test_printed(self):
        self.save("x.npy", np.zeros((2, 4), np.float32))
        self.assertEqual(self.succeed("run", "x.npy"), b"[[0.25 0.25 0.25 0.25]\n [0.25 0.25 0.25 0.25]]\n")
        self.save("x.npy", np.array([[np.inf, 1]]))
        self.assertEqual(self.succeed("run", "x.npy"), b"[[nan nan]]\n")
        self.assertEqual(self.succeed("run", "--op", "logsumexp", "x.npy"), b"[inf]\n")
        self.save("x.npy", np.zeros((1, 2000), np.float32))
        self.assertEqual(
            self.succeed("run", "x.npy"),
            b"[[0.000500000024 0.000500000024 0.000500000024 ... " b"0.000500000024 0.000500000024 0.000500000024]]\n",
        )

    def on_terminal(self, *words):
        """Exit status, and what came to a terminal that is standard output and error."""
        ours, theirs = pty.openpty()
        process = subprocess.Popen([COMMAND, *words], cwd=self.folder, stdout=theirs, stderr=theirs)
        os.close(theirs)
        text = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                break
            if not part:
                break
            text += part
        os.close(ours)
        return process.wait(60), text.replace(b"\r\n", b"\n")

    def test_terminal(self):
        self.save("x.npy", np.zeros((1, 4), np.float32))
        self.assertEqual(self.on_terminal("run", "x.npy"), (0, b"[[0.25 0.25 0.25 0.25]]\n"))
        status, text = self.on_terminal("run", "x.npy", "-o", "-")
        self.assertEqual(
            (status, text),
            (
                2,
                b"softmax: -o -: standard output is a terminal; allowed is a file or a pipe (without -o the "
                b"result is printed)\n",
            ),
        )

    def test_progress(self):
        """Long work shows itself, on a terminal only: 2 GB, on one thread and with the slowest instruction set."""
        self.sparse("big.npy", 1 << 14, 1 << 15)
        status, text = self.on_terminal("run", "--threads", "1", "--isa", "portable", "big.npy", "-o", "y.npy")
        self.assertEqual(status, 0)
        self.assertRegex(text, rb"^(\rsoftmax: +\d+ %)+\r\x1b\[K$")

    def test_help(self):
        for words in (["--help"], ["run", "--help"], ["compare", "--help"], ["info", "--help"]):
            self.assertRegex(self.succeed(*words), b"^softmax")
        run = self.succeed("run", "--help").decode()
        for option in (
            "op axis scale softcap mask causal causal-offset valid-lengths grad targets grad-output class-weights "
            "label-smoothing z-loss ignore-index reduction empty-rows dtype threads isa gradient"
        ).split():
            self.assertIn(f"--{option} ", run)
        self.assertRegex(self.succeed("--version"), rb"^softmax \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    main()
