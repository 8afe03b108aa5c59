/* The instruction sets of this build, found once per process and published atomically: a thread sees nothing or all of
 * it. */
#include "dispatch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Best last. */
static const softmax_kernels *const built[] = {
    &softmax_kernels_portable,
#if defined(SOFTMAX_HAVE_NEON)
    &softmax_kernels_neon,
#endif
#if defined(SOFTMAX_HAVE_AVX2)
    &softmax_kernels_avx2,
#endif
#if defined(SOFTMAX_HAVE_AVX512)
    &softmax_kernels_avx512,
#endif
};

enum { BUILT = sizeof built / sizeof *built };

/* ---- What the machine has --------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
enum {
    LEAF1_ECX_FMA = 1 << 12,
    LEAF1_ECX_OSXSAVE = 1 << 27,
    LEAF1_ECX_F16C = 1 << 29,
    LEAF7_EBX_AVX2 = 1 << 5,
    XCR0_YMM = 0x06, /* xmm and ymm registers are saved by the operating system */
    XCR0_ZMM = 0xe6  /* and opmask, the upper halves of zmm0-15, and zmm16-31 */
};
static const unsigned int leaf7_ebx_avx512 = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31; /* F, DQ, BW, VL */

static unsigned int saved_registers(void)
{
    unsigned int low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

static void find_x86(int *avx2, int *avx512)
{
    const unsigned int needed = LEAF1_ECX_FMA | LEAF1_ECX_F16C | LEAF1_ECX_OSXSAVE;
    unsigned int eax, ebx, ecx, edx, saved;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || (ecx & needed) != needed)
        return;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx))
        return;
    saved = saved_registers();
    *avx2 = ebx & LEAF7_EBX_AVX2 && (saved & XCR0_YMM) == XCR0_YMM;
    *avx512 = *avx2 && (ebx & leaf7_ebx_avx512) == leaf7_ebx_avx512 && (saved & XCR0_ZMM) == XCR0_ZMM;
}
#endif

/* Bit i: built[i] runs here. The instruction that asks is slow in virtual machines, so it is asked once. */
static unsigned int available_sets(void)
{
    enum { KNOWN = 1 << 30 };
    static atomic_uint cache;
    unsigned int sets = atomic_load_explicit(&cache, memory_order_relaxed);
    int avx2 = 0, avx512 = 0;
    if (sets & KNOWN)
        return sets;
#if defined(__x86_64__)
    find_x86(&avx2, &avx512);
#endif
    sets = KNOWN;
    for (int i = 0; i < BUILT; i++) {
        const char *name = built[i]->name;
        int runs = strcmp(name, "avx2") == 0 ? avx2 : strcmp(name, "avx512") == 0 ? avx512 : 1;
        sets |= (unsigned int)runs << i;
    }
    atomic_store_explicit(&cache, sets, memory_order_relaxed);
    return sets;
}

static const softmax_kernels *find_named(const char *name)
{
    unsigned int sets = available_sets();
    for (int i = 0; i < BUILT; i++)
        if (strcmp(built[i]->name, name) == 0)
            return sets >> i & 1u ? built[i] : NULL;
    return NULL;
}

/* ---- What calls take by default --------------------------------------------------------------------------------- */

static const softmax_kernels refused; /* stands for a $SOFTMAX_ISA that names no available set */
static atomic_char
    refused_name[40]; /* its first letters, for the message; a plain array would be a race between two first calls */
static _Atomic(const softmax_kernels *) chosen;

static const softmax_kernels *choose(void)
{
    const char *wanted = getenv("SOFTMAX_ISA");
    const softmax_kernels *choice = NULL, *unset = NULL;
    if (wanted && *wanted) {
        choice = find_named(wanted);
        if (!choice) {
            int done = 0;
            for (size_t i = 0; i + 1 < sizeof refused_name && !done; i++) {
                atomic_store_explicit(&refused_name[i], wanted[i], memory_order_relaxed);
                done = wanted[i] == '\0';
            }
            choice = &refused;
        }
    } else {
        for (int i = 0; i < BUILT; i++)
            if (available_sets() >> i & 1u)
                choice = built[i];
    }
    /* The first thread's choice stands: $SOFTMAX_ISA is read once. */
    if (!atomic_compare_exchange_strong_explicit(&chosen, &unset, choice, memory_order_acq_rel, memory_order_acquire))
        choice = unset;
    return choice;
}

const softmax_kernels *softmax_kernels_find(const char *name)
{
    const softmax_kernels *choice;
    if (name)
        return find_named(name);
    choice = atomic_load_explicit(&chosen, memory_order_acquire);
    if (!choice)
        choice = choose();
    return choice == &refused ? NULL : choice;
}

void softmax_isa_refusal(const char *name, char *words, size_t bytes)
{
    char copy[sizeof refused_name] = "", list[80] = "";
    size_t used = 0;
    int known = 0;
    for (int i = 0; i < BUILT; i++) {
        if (available_sets() >> i & 1u)
            used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "", built[i]->name);
        known |= name && strcmp(built[i]->name, name) == 0;
    }
    if (!name)
        for (size_t i = 0; i + 1 < sizeof copy; i++)
            copy[i] = atomic_load_explicit(&refused_name[i], memory_order_relaxed);
    snprintf(words, bytes, "%s is \"%.60s\"%s; allowed here: %s", name ? "isa" : "the environment's SOFTMAX_ISA",
             name ? name : copy, known ? ", which this machine does not have" : "", list);
}

/* ---- The public functions --------------------------------------------------------------------------------------- */

int softmax_isa_count(void)
{
    return BUILT;
}

const char *softmax_isa_name(int index)
{
    return index >= 0 && index < BUILT ? built[index]->name : NULL;
}

int softmax_isa_available(int index)
{
    return index >= 0 && index < BUILT && (available_sets() >> index & 1u);
}

const char *softmax_isa_default(void)
{
    const softmax_kernels *kernels = softmax_kernels_find(NULL);
    return kernels ? kernels->name : NULL;
}
