/* The floating-point environment that every result is defined in: round to nearest, subnormals kept, nothing trapped. A
 * public call, and every thread that computes for it, holds the guard; the caller's modes and sticky flags come back
 * unchanged. */
#ifndef SOFTMAX_FENV_GUARD_H
#define SOFTMAX_FENV_GUARD_H

#include <stdint.h>

#if defined(__x86_64__) || (defined(__i386__) && defined(__SSE__))

#include <xmmintrin.h>

#define SOFTMAX_MXCSR_DEFAULT 0x1f80u
#define SOFTMAX_MXCSR_FLAGS 0x3fu

typedef struct fenv_guard {
    unsigned int mxcsr;
} fenv_guard;

/* Reading the register is cheap and writing it is not, so both ends write only what differs. The memory clobbers keep
 * arithmetic on loaded values between the two. */
static inline fenv_guard guard_begin(void)
{
    fenv_guard guard = {_mm_getcsr()};
    if ((guard.mxcsr & ~SOFTMAX_MXCSR_FLAGS) != SOFTMAX_MXCSR_DEFAULT)
        _mm_setcsr(SOFTMAX_MXCSR_DEFAULT);
    __asm__ volatile("" ::: "memory");
    return guard;
}

static inline void guard_end(fenv_guard guard)
{
    __asm__ volatile("" ::: "memory");
    if (_mm_getcsr() != guard.mxcsr)
        _mm_setcsr(guard.mxcsr);
}

#elif defined(__aarch64__)

typedef struct fenv_guard {
    uint64_t control;
    uint64_t status;
} fenv_guard;

static inline fenv_guard guard_begin(void)
{
    fenv_guard guard;
    __asm__ volatile("mrs %0, fpcr" : "=r"(guard.control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(guard.status));
    if (guard.control != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    __asm__ volatile("" ::: "memory");
    return guard;
}

static inline void guard_end(fenv_guard guard)
{
    __asm__ volatile("" ::: "memory");
    __asm__ volatile("msr fpsr, %0" : : "r"(guard.status));
    if (guard.control != 0)
        __asm__ volatile("msr fpcr, %0" : : "r"(guard.control));
}

#else

#include <fenv.h>

typedef struct fenv_guard {
    fenv_t environment;
} fenv_guard;

static inline fenv_guard guard_begin(void)
{
    fenv_guard guard;
    fegetenv(&guard.environment);
    fesetenv(FE_DFL_ENV);
    return guard;
}

static inline void guard_end(fenv_guard guard)
{
    fesetenv(&guard.environment);
}

#endif
#endif
