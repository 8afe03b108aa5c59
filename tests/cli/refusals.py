"""What `softmax` refuses: each bad input with its exit status and its one line, and nothing written."""

import numpy as np

from command import CommandTest, main

F4 = np.zeros((2, 3), np.float32)


def header(text, version=b"\x01\x00", data=b""):
    """A file with this header, padded as NumPy does."""
    length = (len(text) + 10 + 63) // 64 * 64 - 10
    size = length.to_bytes(2 if version[0] == 1 else 4, "little")
    return b"\x93NUMPY" + version + size + text.encode("latin-1").ljust(length - 1) + b"\n" + data


def f4(shape, data=b"", descr="<f4", order="False"):
    return header(f"{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}", data=data)


class Refusals(CommandTest):
    def refuse(self, status, line, *words, **more):
        got, output, errors = self.call(*words, **more)
        self.assertEqual((got, errors), (status, f"softmax: {line}\n"), words)
        self.assertEqual(output, b"")

    def setUp(self):
        super().setUp()
        self.save("x.npy", F4)

    def test_absent_device(self):
        status, output, errors = self.call("run", "--device", "cuda", "x.npy")
        if status == 0:
            self.skipTest("there is a GPU")
        self.assertEqual((status, output), (2, b""))
        self.assertRegex(errors, r"^softmax: --device cuda: is not on this machine \(.+\); allowed is cpu\n$")

    def test_usage(self):
        see = "see softmax run --help"
        for words, line in [
            ([], "a subcommand is missing; allowed are run, compare, info (see softmax --help)"),
            (["walk"], "walk: is no subcommand; allowed are run, compare, info"),
            (["info", "x"], "x: info takes no options"),
            (["run"], f"INPUT.npy: 0 are given; allowed is 1 ({see})"),
            (["run", "x.npy", "y.npy"], f"INPUT.npy: 2 are given; allowed is 1 ({see})"),
            (["run", "--frob", "x.npy"], f"--frob: is not an option, or the start of several; {see}"),
            (["run", "--s", "1", "x.npy"], f"--s: is not an option, or the start of several; {see}"),
            (["run", "-q", "x.npy"], f"-q: is not an option; {see}"),
            (["run", "x.npy", "-o"], f"-o: needs a value; {see}"),
            (["run", "x.npy", "--axis"], f"--axis: needs a value; {see}"),
            (["run", "--causal=1", "x.npy"], f"--causal=1: takes no value; {see}"),
            (
                ["run", "--op", "soft", "x.npy"],
                "--op soft: allowed is one of softmax, log_softmax, logsumexp, softmax_backward, "
                "log_softmax_backward, cross_entropy",
            ),
            (["run", "--axis", "one", "x.npy"], "--axis one: allowed is an integer from -16 to 15"),
            (
                ["run", "--axis", "99999999999999999999", "x.npy"],
                "--axis 99999999999999999999: allowed is an integer from -16 to 15",
            ),
            (["run", "--axis", "2", "x.npy"], "--axis 2: x.npy has 2 dimensions; allowed is -2 to 1"),
            (["run", "--axis", "-3", "x.npy"], "--axis -3: x.npy has 2 dimensions; allowed is -2 to 1"),
            (["run", "--device", "gpu", "x.npy"], "--device gpu: allowed is one of cpu, cuda, cuda:N"),
            (["run", "--scale", "nan", "x.npy"], "--scale nan: allowed is a finite number"),
            (["run", "--scale", "inf", "x.npy"], "--scale inf: allowed is a finite number"),
            (["run", "--scale", "2x", "x.npy"], "--scale 2x: allowed is a finite number"),
            (["run", "--scale", "", "x.npy"], "--scale : allowed is a finite number"),
            (["run", "--softcap", "-1", "x.npy"], "--softcap -1: allowed is a finite number of at least 0 (0: none)"),
            (["run", "--empty-rows", "one", "x.npy"], "--empty-rows one: allowed is one of nan, zero"),
            (["run", "--dtype", "float8", "x.npy"], "--dtype float8: allowed is one of bfloat16"),
            (["run", "--threads", "-1", "x.npy"], "--threads -1: allowed is an integer from 0 to 4096"),
            (["run", "--causal-offset", "1", "x.npy"], "--causal-offset: has no meaning without --causal"),
            (
                ["run", "--causal", "--axis", "0", "x.npy"],
                "--causal: needs 2 dimensions and the last axis; x.npy has 2, and --axis is 0",
            ),
            (["run", "--targets", "x.npy", "x.npy"], "--targets: has no meaning for --op softmax"),
            (
                ["run", "--scale", "2", "--op", "softmax_backward", "--grad", "x.npy", "x.npy"],
                "--scale: has no meaning for --op softmax_backward",
            ),
            (
                ["run", "--op", "softmax_backward", "x.npy"],
                "--grad: is missing; --op softmax_backward needs the gradient of its output",
            ),
            (
                ["run", "--op", "cross_entropy", "x.npy"],
                "--targets: is missing; --op cross_entropy needs classes or probabilities",
            ),
            (
                ["run", "--op", "cross_entropy", "--targets", "t.npy", "--label-smoothing", "1.5", "x.npy"],
                "--label-smoothing 1.5: allowed is a number from 0 to 1",
            ),
            (
                ["run", "--op", "cross_entropy", "--targets", "t.npy", "--z-loss", "-1", "x.npy"],
                "--z-loss -1: allowed is a finite number of at least 0",
            ),
            (
                ["run", "--op", "cross_entropy", "--targets", "t.npy", "--reduction", "max", "x.npy"],
                "--reduction max: allowed is one of none, sum, mean",
            ),
            (
                ["run", "--op", "cross_entropy", "--targets", "t.npy", "--grad-output", "u.npy", "x.npy"],
                "--grad-output: has no meaning without --gradient",
            ),
            (
                ["run", "--op", "cross_entropy", "--targets", "t.npy", "--gradient", "y.npy", "-o", "y.npy", "x.npy"],
                "--gradient y.npy: is also the file of -o; allowed are two files",
            ),
            (["run", "--mask", "-", "-"], "-: is given for 2 inputs; standard input can be one"),
            (["compare", "x.npy", "-o", "y.npy"], "-o: is an option of run, not of compare"),
        ]:
            with self.subTest(words):
                self.refuse(2, line, *words)

    def test_instruction_set(self):
        status, _, errors = self.call("run", "--isa", "mmx", "x.npy")
        self.assertEqual(status, 2)
        self.assertRegex(
            errors, r"^softmax: --isa mmx: is not built or not on this machine; allowed is one of portable.*\n$"
        )
        self.refuse(
            2,
            "SOFTMAX_ISA=mmx: is no instruction set of this machine; softmax info lists what is allowed",
            "run",
            "x.npy",
            environment={"SOFTMAX_ISA": "mmx"},
        )

    def test_files(self):
        full = b"\0" * 24
        for content, line in [
            (b"", "is not a .npy file: it does not begin with \\x93NUMPY and a version"),
            (b"PK\3\4" * 20, "is not a .npy file: it does not begin with \\x93NUMPY and a version"),
            (
                f4("(2, 3)", full).replace(b"\x01\x00", b"\x04\x00", 1),
                "is a .npy file of version 4.0; allowed are 1.0, 2.0 and 3.0",
            ),
            (
                f4("(2, 3)", full).replace(b"\x01\x00", b"\x01\x07", 1),
                "is a .npy file of version 1.7; allowed are 1.0, 2.0 and 3.0",
            ),
            (f4("(2, 3)")[:40], "ends inside its header: 30 bytes of 118 are there"),
            (f4("(2, 3)", full[:23]), "holds 23 bytes of data; its shape and type need exactly 24"),
            (f4("(2, 3)", full + b"\0"), "holds 25 bytes of data; its shape and type need exactly 24"),
            (
                f4("(2, 3)", full, descr=">f4"),
                "holds big-endian type '>f4'; allowed are <f2 <f4 <f8 <i4 <i8 |b1 |u1 <u2",
            ),
            (f4("(2, 3)", full, descr="<c8"), "holds type '<c8'; allowed are <f2 <f4 <f8 <i4 <i8 |b1 |u1 <u2"),
            (f4("(2, 3)", full, descr="|O"), "holds type '|O'; allowed are <f2 <f4 <f8 <i4 <i8 |b1 |u1 <u2"),
            (
                f4("(2, 3)", full, descr="<i4"),
                "holds type '<i4'; allowed for INPUT.npy are <f2 <f4 <f8, and <u2 with --dtype bfloat16",
            ),
            (
                f4("(2, 3)", full[:12], descr="<u2"),
                "holds type '<u2'; allowed is that only as bfloat16, with --dtype bfloat16",
            ),
            (
                header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, 3), }", data=full),
                "holds records; allowed are plain arrays",
            ),
            (f4("()", full[:4]), "has 0 dimensions; allowed are 1 to 16"),
            (f4("(" + "1, " * 17 + ")", full[:4]), "has more than 16 dimensions; at most 16 are allowed"),
            (f4("(-1, 3)"), "the header's shape is not a tuple of sizes"),
            (f4("(2 3)"), "the header's shape has no comma after its only size"),
            (f4("(9223372036854775808,)"), "a size in the header's shape is beyond 2^63 - 1"),
            (f4("(4294967296, 4294967296)"), "the header's shape holds more than 2^63 - 1 bytes"),
            (f4("(0, 4294967296, 4294967296)"), "the header's shape holds more than 2^63 - 1 bytes"),
            (f4("(2, 3)", full, order="Maybe"), "the header's fortran_order is neither True nor False"),
            (header("{'descr': '<f4', 'shape': (2, 3), }", data=full), "the header has no key 'fortran_order'"),
            (header("{'descr': '<f4', 'descr': '<f4', }", data=full), "the header's key 'descr' is there twice"),
            (
                header("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'more': 1}", data=full),
                "the header's key 'more' is not known",
            ),
            (
                header("{'descr': '<f4', 'fortran_order': False, 'shape': (6,), } x", data=full),
                "the header goes on after its dictionary",
            ),
            (
                header("{'descr': '<f4', 'fortran_order': False, 'shape': (6,)", data=full),
                "the header is not closed after its key 'shape'",
            ),
            (header("[]", data=full), "the header is not a dictionary"),
        ]:
            with self.subTest(line):
                (self.folder / "bad.npy").write_bytes(content)
                self.refuse(1, "bad.npy: " + line, "run", "bad.npy", "-o", "y.npy")
                self.refuse(1, "-: " + line, "run", "-", "-o", "y.npy", stdin=content)
                self.assertFalse((self.folder / "y.npy").exists())

    def test_paths(self):
        self.refuse(1, "no.npy: cannot be opened: No such file or directory", "run", "no.npy")
        self.refuse(1, ".: is a folder; allowed is a .npy file or -", "run", ".")
        self.refuse(1, ".: is a folder; allowed is the name of a file", "run", "x.npy", "-o", ".")
        self.refuse(1, "no/y.npy: cannot be created: No such file or directory", "run", "x.npy", "-o", "no/y.npy")
        self.refuse(1, "a?b: cannot be opened: No such file or directory", "run", "a\nb")

    def test_other_arrays(self):
        loss = ["--op", "cross_entropy", "--targets"]
        save = self.save
        for words, line in [
            (
                ["--mask", save("m.npy", np.ones((2, 4), bool))],
                "m.npy: has shape (2, 4); allowed for --mask is what broadcasts to (2, 3)",
            ),
            (
                ["--mask", save("m3.npy", np.ones((1, 2, 3), bool))],
                "m3.npy: has shape (1, 2, 3); allowed for --mask is what broadcasts to (2, 3)",
            ),
            (
                ["--mask", save("mi.npy", np.ones((2, 3), np.int64))],
                "mi.npy: holds type '<i8'; allowed for --mask are |b1 and |u1 (nonzero takes part) and floats (added)",
            ),
            (
                ["--valid-lengths", save("l.npy", np.ones(3, np.int32))],
                "l.npy: has shape (3,); allowed for --valid-lengths is what broadcasts to (2,)",
            ),
            (
                ["--valid-lengths", save("lf.npy", np.ones(2))],
                "lf.npy: holds type '<f8'; allowed for --valid-lengths are <i4 and <i8",
            ),
            (
                ["--op", "softmax_backward", "--grad", save("d.npy", np.zeros((3, 2), np.float32))],
                "d.npy: has shape (3, 2); allowed for --grad is (2, 3)",
            ),
            (
                ["--op", "softmax_backward", "--grad", save("d8.npy", np.zeros((2, 3)))],
                "d8.npy: holds type '<f8'; allowed for --grad are <f4",
            ),
            (loss + [save("t3.npy", np.zeros(3, np.int64))], "t3.npy: has shape (3,); allowed for --targets is (2,)"),
            (
                loss + [save("tb.npy", np.zeros(2, bool))],
                "tb.npy: holds type '|b1'; allowed for --targets are <i4 <i8 (classes) and floats (probabilities)",
            ),
            (
                loss + [save("tp.npy", np.zeros(2, np.float32))],
                "tp.npy: has shape (2,); allowed for --targets (probabilities) is (2, 3)",
            ),
            (
                loss + [save("t.npy", np.zeros(2, np.int64)), "--class-weights", save("w.npy", np.ones(2, np.float32))],
                "w.npy: has shape (2,); allowed for --class-weights is (3,)",
            ),
            (
                loss + ["t.npy", "--class-weights", save("w8.npy", np.ones(3))],
                "w8.npy: holds type '<f8'; allowed for --class-weights are <f4",
            ),
            (
                loss + ["t.npy", "--gradient", "g.npy", "--grad-output", save("u.npy", np.ones(2, np.float32))],
                "u.npy: has shape (2,); allowed for --grad-output is ()",
            ),
            (
                loss + ["t.npy", "--mask", save("mf.npy", np.zeros(3, np.float32))],
                "mf.npy: holds type '<f4'; allowed for --mask with --op cross_entropy are |b1 and |u1",
            ),
        ]:
            with self.subTest(words):
                self.refuse(1, line, "run", *words, "x.npy", "-o", "y.npy")
                self.assertFalse((self.folder / "y.npy").exists() or (self.folder / "g.npy").exists())

    def test_target_out_of_range(self):
        for bad in (3, -1, 100):
            self.save("t.npy", np.array([0, bad]))
            status, _, errors = self.call(
                "run", "--op", "cross_entropy", "--targets", "t.npy", "x.npy", "-o", "y.npy", "--gradient", "g.npy"
            )
            self.assertEqual(status, 1)
            self.assertIn(f"softmax: t.npy: cross_entropy: targets holds {bad} in row 1; 0 to 2", errors)
            self.assertEqual(errors.count("\n"), 1)
            self.assertEqual(sorted(p.name for p in self.folder.iterdir()), ["t.npy", "x.npy"])

    def test_bfloat16_where_there_is_none(self):
        self.refuse(
            1, "x.npy: holds type '<f4'; allowed for --dtype bfloat16 are <u2", "run", "--dtype", "bfloat16", "x.npy"
        )


if __name__ == "__main__":
    main()
