/* Which instruction set runs: those that were built, those that this machine has, the one that calls take. */
#ifndef SOFTMAX_DISPATCH_H
#define SOFTMAX_DISPATCH_H

#include "kernels.h"

/* Why softmax_kernels_find(name) gave NULL, in words: the option or $SOFTMAX_ISA, its value, and the sets that are
 * allowed. */
void softmax_isa_refusal(const char *name, char *words, size_t bytes);

#endif
