/* Single elements of tensors as numbers, for printing, for the readable references and for the judge; not for speed. */
#ifndef SOFTMAX_CLI_ELEMENT_H
#define SOFTMAX_CLI_ELEMENT_H

#include <softmax.h>

/* The element `offset` elements after the tensor's first, exactly. */
double element_value(const DLTensor *tensor, int64_t offset);

/* Rounds to nearest even and stores; float tensors only. */
void element_store(const DLTensor *tensor, int64_t offset, double value);

#endif
