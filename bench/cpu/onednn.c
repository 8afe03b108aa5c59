/* oneDNN 2.6, as Debian 12 has it (libdnnl-dev), from C: forward and backward of softmax and log_softmax into the caller's memory. */
#include "work.h"
#include <oneapi/dnnl/dnnl.h>
#include <omp.h>
#include <stdbool.h>
#include <stddef.h>

#if DNNL_VERSION_MAJOR != 2
#error "written for oneDNN 2; the current one is measured through PyTorch"
#endif

BENCH_API bench_contestant bench_onednn;
BENCH_API const char *bench_onednn_version(void);

typedef struct primitive {
    int32_t operation, type, threads;
    int64_t outer, columns, inner;
    dnnl_primitive_t run;
    dnnl_memory_t x, dy, y;
} primitive;

static dnnl_engine_t engine;
static dnnl_stream_t stream;

static bool is_backward(int operation)
{
    return operation == BENCH_SOFTMAX_BACKWARD || operation == BENCH_LOG_SOFTMAX_BACKWARD;
}

static dnnl_status_t describe(const bench_work *work, const dnnl_memory_desc_t *memory, dnnl_primitive_desc_t *made)
{
    const bool logarithm = work->operation == BENCH_LOG_SOFTMAX || work->operation == BENCH_LOG_SOFTMAX_BACKWARD;
    const bool backward = is_backward(work->operation);
    const dnnl_alg_kind_t kind = logarithm ? dnnl_softmax_log : dnnl_softmax_accurate;
    dnnl_softmax_v2_desc_t forward_form, backward_form;
    dnnl_primitive_desc_t forward = NULL;
    dnnl_status_t status = dnnl_softmax_v2_forward_desc_init(
        &forward_form, backward ? dnnl_forward_training : dnnl_forward_inference, kind, memory, memory, 1);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(&forward, &forward_form, NULL, engine, NULL);
    if (status != dnnl_success || !backward) {
        *made = forward;
        return status;
    }
    status = dnnl_softmax_v2_backward_desc_init(&backward_form, kind, memory, memory, memory, 1);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(made, &backward_form, NULL, engine, forward);
    dnnl_primitive_desc_destroy(forward);
    return status;
}

static void release(primitive *old)
{
    if (old->run)
        dnnl_primitive_destroy(old->run);
    for (dnnl_memory_t *memory = &old->x; memory <= &old->y; memory++)
        if (*memory)
            dnnl_memory_destroy(*memory);
    *old = (primitive){0};
}

static dnnl_status_t prepare(const bench_work *work, primitive *made)
{
    static const dnnl_data_type_t types[] = {dnnl_data_type_undef, dnnl_f32, dnnl_data_type_undef, dnnl_f16, dnnl_bf16};
    const dnnl_dims_t dims = {work->outer, work->columns, work->inner};
    dnnl_memory_desc_t memory;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status = dnnl_success;
    release(made);
    if (!engine) {
        status = dnnl_engine_create(&engine, dnnl_cpu, 0);
        if (status == dnnl_success)
            status = dnnl_stream_create(&stream, engine, dnnl_stream_default_flags);
    }
    if (status == dnnl_success)
        status = dnnl_memory_desc_init_by_tag(&memory, work->inner == 1 ? 2 : 3, dims, types[work->type],
                                              work->inner == 1 ? dnnl_ab : dnnl_abc);
    if (status == dnnl_success)
        status = describe(work, &memory, &description);
    if (status == dnnl_success) {
        status = dnnl_primitive_create(&made->run, description);
        dnnl_primitive_desc_destroy(description);
    }
    for (dnnl_memory_t *place = &made->x; place <= &made->y && status == dnnl_success; place++)
        status = dnnl_memory_create(place, &memory, engine, DNNL_MEMORY_NONE);
    if (status == dnnl_success) {
        made->operation = work->operation;
        made->type = work->type;
        made->threads = work->threads;
        made->outer = work->outer;
        made->columns = work->columns;
        made->inner = work->inner;
    }
    return status;
}

int bench_onednn(const bench_work *work)
{
    static primitive last = {.operation = -1};
    if (work->operation == BENCH_LOGSUMEXP || work->operation > BENCH_LOG_SOFTMAX_BACKWARD ||
        work->type == BENCH_FLOAT64)
        return 1;
    omp_set_num_threads(work->threads);
    if (last.operation != work->operation || last.type != work->type || last.threads != work->threads ||
        last.outer != work->outer || last.columns != work->columns || last.inner != work->inner) {
        if (prepare(work, &last) != dnnl_success) {
            release(&last);
            last.operation = -1;
            return 1;
        }
    }
    const bool backward = is_backward(work->operation);
    dnnl_memory_set_data_handle(last.x, (void *)work->x);
    dnnl_memory_set_data_handle(last.dy, (void *)work->dy);
    dnnl_memory_set_data_handle(last.y, work->y);
    const dnnl_exec_arg_t forward_arguments[] = {{DNNL_ARG_SRC, last.x}, {DNNL_ARG_DST, last.y}};
    const dnnl_exec_arg_t backward_arguments[] = {
        {DNNL_ARG_DST, last.x}, {DNNL_ARG_DIFF_DST, last.dy}, {DNNL_ARG_DIFF_SRC, last.y}};
    dnnl_status_t status = dnnl_primitive_execute(last.run, stream, backward ? 3 : 2,
                                                  backward ? backward_arguments : forward_arguments);
    if (status == dnnl_success)
        status = dnnl_stream_wait(stream);
    return status != dnnl_success;
}

const char *bench_onednn_version(void)
{
    static char words[32];
    const dnnl_version_t *const version = dnnl_version();
    char *end = words;
    const int parts[] = {version->major, version->minor, version->patch};
    for (int i = 0; i < 3; i++) {
        if (parts[i] >= 10)
            *end++ = (char)('0' + parts[i] / 10 % 10);
        *end++ = (char)('0' + parts[i] % 10);
        *end++ = i < 2 ? '.' : '\0';
    }
    return words;
}
