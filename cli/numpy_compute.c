/* NumPy's row of the table: the formulas as people write them, run by another process on the same files. */
#include "fail.h"
#include "implementation.h"
#include "temporary.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Arguments: op axis scale softcap causal causal_offset smoothing z_loss ignore_index rounds result-file, then files or
 * '' for input, mask, valid lengths, grad, targets, class weights. Prints the version and seconds. Scores are prepared
 * first, outside the clock. */
static const char script[] =
    "import sys, time\n"
    "import numpy as np\n"
    "np.seterr(all='ignore')\n"
    "op, axis, scale, cap, causal, offset, smoothing, z_loss, ignore, rounds, out = sys.argv[1:12]\n"
    "axis, scale, cap, smoothing, z_loss = int(axis), float(scale), float(cap), float(smoothing), float(z_loss)\n"
    "x, mask, lengths, dy, t, w = (np.load(f) if f else None for f in sys.argv[12:18])\n"
    "n, kind = x.shape[axis], x.dtype.type\n"
    "column = np.arange(n).reshape([-1 if d == axis else 1 for d in range(x.ndim)])\n"
    "z, minus_inf = x, kind(-np.inf)\n"
    "if cap: z = kind(cap) * np.tanh(z / kind(cap))\n"
    "if scale != 1: z = z * kind(scale)\n"
    "if mask is not None: z = np.where(mask != 0, z, minus_inf) if mask.dtype.kind in 'bu' else z + mask.astype(kind)\n"
    "if lengths is not None:\n"
    "    lengths = np.broadcast_to(lengths, x.shape[:axis] + x.shape[axis + 1:])\n"
    "    z = np.where(column < np.expand_dims(lengths, axis), z, minus_inf)\n"
    "if int(causal): z = np.where(column <= np.arange(x.shape[-2])[:, None] + int(offset), z, minus_inf)\n"
    "def softmax(x):\n"
    "    e = np.exp(x - x.max(axis, keepdims=True))\n"
    "    return e / e.sum(axis, keepdims=True)\n"
    "def logsumexp(x, keep=False):\n"
    "    m = x.max(axis, keepdims=True)\n"
    "    l = m + np.log(np.exp(x - m).sum(axis, keepdims=True))\n"
    "    return l if keep else l.squeeze(axis)\n"
    "def log_softmax(x):\n"
    "    d = x - x.max(axis, keepdims=True)\n"
    "    return d - np.log(np.exp(d).sum(axis, keepdims=True))\n"
    "def loss(z):\n"
    "    l, v = logsumexp(z, True), np.ones(n, kind) if w is None else w.astype(kind)\n"
    "    v = v.reshape(column.shape)\n"
    "    if t.dtype.kind == 'f': c = v * (kind(1 - smoothing) * t.astype(kind) + kind(smoothing / n))\n"
    "    elif not smoothing:\n"
    "        at = np.where(t == int(ignore), 0, t)\n"
    "        r = np.take(v.ravel(), at) * (l - np.take_along_axis(z, np.expand_dims(at, axis), axis)).squeeze(axis)\n"
    "        return np.where(t == int(ignore), kind(0), r + kind(z_loss) * l.squeeze(axis) ** 2)\n"
    "    else: c = v * (kind(1 - smoothing) * (np.expand_dims(t, axis) == column) + kind(smoothing / n))\n"
    "    r = np.where(c != 0, c * (l - z), kind(0)).sum(axis) + kind(z_loss) * l.squeeze(axis) ** 2\n"
    "    return r if t.dtype.kind == 'f' else np.where(t == int(ignore), kind(0), r)\n"
    "compute = {'softmax': lambda: softmax(z), 'log_softmax': lambda: log_softmax(z), 'logsumexp': lambda: "
    "logsumexp(z),\n"
    "           'softmax_backward': lambda: x * (dy - (dy * x).sum(axis, keepdims=True)),\n"
    "           'log_softmax_backward': lambda: dy - np.exp(x) * dy.sum(axis, keepdims=True),\n"
    "           'cross_entropy': lambda: loss(z)}[op]\n"
    "y = compute() if x.size else np.zeros(0)\n"
    "result = 'float32' if op in ('logsumexp', 'cross_entropy') and kind == np.float16 else kind\n"
    "np.ascontiguousarray(y, result).tofile(out)\n"
    "times, end = [], time.perf_counter() + 0.3\n"
    "while x.size and len(times) < int(rounds) and (len(times) < 3 or time.perf_counter() < end):\n"
    "    repeat, start = 0, time.perf_counter()\n"
    "    while repeat == 0 or time.perf_counter() - start < 5e-4: compute(); repeat += 1\n"
    "    times.append((time.perf_counter() - start) / repeat)\n"
    "print(np.__version__, *times)\n";

/* The file to read an array from: its own, or a copy where its bytes came through a pipe. */
static const char *array_path(const npy_array *array, bool given)
{
    if (!given)
        return "";
    if (array->file_mapped)
        return array->name;
    int file;
    const char *path;
    npy_header header = array->header;
    unsigned char head[NPY_HEADER_BYTES];
    size_t head_bytes = npy_header_write(&header, head);
    size_t bytes = (size_t)(header.elements * npy_kind_bytes(header.kind));
    temporary_scratch(head_bytes + bytes, &file, &path);
    FILE *stream = fdopen(file, "wb");
    if (!stream || fwrite(head, 1, head_bytes, stream) != head_bytes ||
        fwrite(array->tensor.data, 1, bytes, stream) != bytes || fclose(stream) != 0)
        fail_data("%s: cannot be written", path);
    return path;
}

/* Starts the python with its standard output in a pipe; its complaints go nowhere. */
static FILE *start_python(char *const *words, pid_t *child)
{
    int ends[2];
    if (pipe(ends) != 0 || (*child = fork()) < 0)
        return NULL;
    if (*child == 0) {
        int nowhere = open("/dev/null", O_RDWR);
        dup2(nowhere, STDIN_FILENO);
        dup2(ends[1], STDOUT_FILENO);
        if (!getenv("SOFTMAX_PYTHON_ERRORS"))
            dup2(nowhere, STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        execvp(words[0], words);
        _exit(127);
    }
    close(ends[1]);
    return fdopen(ends[0], "r");
}

static bool read_result(npy_array *result, const char *path)
{
    size_t bytes = (size_t)(result->header.elements * npy_kind_bytes(result->header.kind));
    FILE *file = fopen(path, "rb");
    bool whole = file && fread(result->tensor.data, 1, bytes, file) == bytes;
    if (file)
        fclose(file);
    return whole;
}

/* NumPy's version and the seconds of each round; closes the pipe. */
static void read_answer(FILE *answer, char version[16], implementation *numpy)
{
    if (fscanf(answer, "%15s", version) == 1) {
        while (numpy->rounds < ROUNDS_MOST && fscanf(answer, "%lf", &numpy->times[numpy->rounds]) == 1)
            numpy->rounds++;
    }
    fclose(answer);
}

bool numpy_compute(const problem *p, implementation *numpy, char words[120])
{
    const arguments *a = p->arguments;
    const softmax_options *o = &a->options;
    if (p->input.header.kind == NPY_UINT16) {
        snprintf(words, 120, "NumPy has no bfloat16");
        return false;
    }
    char numbers[9][32];
    snprintf(numbers[0], 32, "%d", p->axis);
    snprintf(numbers[1], 32, "%.17g", o->scale);
    snprintf(numbers[2], 32, "%.17g", o->softcap);
    snprintf(numbers[3], 32, "%d", o->causal);
    snprintf(numbers[4], 32, "%lld", (long long)o->causal_offset);
    snprintf(numbers[5], 32, "%.17g", o->label_smoothing);
    snprintf(numbers[6], 32, "%.17g", o->z_loss);
    snprintf(numbers[7], 32, "%lld", (long long)o->ignore_index);
    snprintf(numbers[8], 32, "%d", ROUNDS_MOST);
    int file;
    const char *path, *python = getenv("SOFTMAX_PYTHON");
    python = python && *python ? python : "python3";
    int scratch = temporary_scratch(0, &file, &path);
    close(file);
    const char *command[] = {python,
                             "-c",
                             script,
                             operation_name(a->op),
                             numbers[0],
                             numbers[1],
                             numbers[2],
                             numbers[3],
                             numbers[4],
                             numbers[5],
                             numbers[6],
                             numbers[7],
                             numbers[8],
                             path,
                             array_path(&p->input, true),
                             array_path(&p->mask, a->mask),
                             array_path(&p->valid_lengths, a->valid_lengths),
                             array_path(&p->grad, a->grad),
                             array_path(&p->targets, a->targets),
                             array_path(&p->class_weights, a->class_weights),
                             NULL};
    pid_t child;
    char version[16] = "";
    FILE *answer = start_python((char *const *)command, &child);
    if (answer) {
        read_answer(answer, version, numpy);
        waitpid(child, NULL, 0);
    }
    bool computed = *version && read_result(&numpy->result, path);
    temporary_remove(scratch);
    snprintf(numpy->name, sizeof numpy->name, "NumPy %s", version);
    snprintf(words, 120, "NumPy: not there: %.60s has no numpy that could compute this", python);
    return computed;
}
