/* Multinomial logistic regression on hand-written digits, trained to its optimum with libsoftmax's loss and gradient:
 *
 *     minimise  mean_i cross_entropy(W x_i + b, label_i) + |W|^2 / (2 N)
 *
 * which is scikit-learn's LogisticRegression(C=1) over N; its newton-cg (1.9.1, tol 1e-12) finds 0.1995264039. Accelerated gradient descent with restarts (Nesterov; O'Donoghue and Candes, 2015).
 * Twice: the logits in float32, and rounded to bfloat16. Usage: train_digits examples/data/digits.npy */
#include <math.h>
#include <softmax.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 1797, PIXELS = 64, CLASSES = 10, FEATURES = PIXELS + 1, WEIGHTS = CLASSES * FEATURES, MOST_STEPS = 2000 };
#define OPTIMUM 0.1995264039

static double features[SAMPLES][FEATURES]; /* pixels from 0 to 1, and a 1 for the bias */
static int64_t labels[SAMPLES];
static float logits[SAMPLES][CLASSES], gradient[SAMPLES][CLASSES];
static uint16_t logits16[SAMPLES][CLASSES];

static int read_digits(const char *path)
{
    unsigned char row[PIXELS + 1];
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, -(long)(SAMPLES * sizeof row), SEEK_END) != 0) { /* the data ends the file */
        fprintf(stderr, "%s: cannot be read\n", path);
        return 0;
    }
    for (int i = 0; i < SAMPLES; i++) {
        if (fread(row, sizeof row, 1, file) != 1) {
            fprintf(stderr, "%s: %d of %d digits\n", path, i, SAMPLES);
            return 0;
        }
        for (int j = 0; j < PIXELS; j++)
            features[i][j] = row[j] / 16.0;
        features[i][PIXELS] = 1;
        labels[i] = row[PIXELS];
    }
    fclose(file);
    return 1;
}

static uint16_t to_bfloat16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static int correct; /* by the last logits */

static void compute_logits(const double *w)
{
    correct = 0;
    for (int i = 0; i < SAMPLES; i++) {
        int best = 0;
        for (int c = 0; c < CLASSES; c++) {
            double sum = 0;
            for (int j = 0; j < FEATURES; j++)
                sum += w[c * FEATURES + j] * features[i][j];
            logits[i][c] = (float)sum;
            logits16[i][c] = to_bfloat16((float)sum);
            if (logits[i][c] > logits[i][best])
                best = c;
        }
        correct += best == labels[i];
    }
}

/* The objective at w, and its gradient unless NULL. */
static double objective(softmax_type type, const double *w, double *slope)
{
    int64_t shape[2] = {SAMPLES, CLASSES}, one = 1;
    float loss;
    char words[200];
    const DLDevice cpu = {kDLCPU, 0};
    DLTensor x = {logits, cpu, 2, {kDLFloat, 32, 1}, shape, NULL, 0}, x16 = {logits16, cpu, 2, {kDLBfloat, 16, 1}, shape, NULL, 0};
    DLTensor targets = {labels, cpu, 1, {kDLInt, 64, 1}, shape, NULL, 0}, value = {&loss, cpu, 1, {kDLFloat, 32, 1}, &one, NULL, 0};
    DLTensor dx = {gradient, cpu, 2, {kDLFloat, 32, 1}, shape, NULL, 0}; /* float32 for bfloat16 logits too */
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.message = words;
    options.message_bytes = sizeof words;
    compute_logits(w);
    if (softmax_cross_entropy(type == SOFTMAX_FLOAT32 ? &x : &x16, &targets, &value, &dx, 1, &options) != SOFTMAX_OK) {
        fprintf(stderr, "%s\n", words);
        exit(1);
    }
    double penalty = 0;
    for (int c = 0; c < CLASSES; c++)
        for (int j = 0; j < PIXELS; j++)
            penalty += w[c * FEATURES + j] * w[c * FEATURES + j];
    if (slope) {
        for (int k = 0; k < WEIGHTS; k++)
            slope[k] = k % FEATURES < PIXELS ? w[k] / SAMPLES : 0;
        for (int i = 0; i < SAMPLES; i++)
            for (int c = 0; c < CLASSES; c++)
                for (int j = 0; j < FEATURES; j++)
                    slope[c * FEATURES + j] += gradient[i][c] * features[i][j];
    }
    return loss + penalty / (2.0 * SAMPLES);
}

/* 1 / the steepest curvature: half the largest eigenvalue of X'X / N, by power iteration, and the penalty's. */
static double step_size(void)
{
    double v[FEATURES], next[FEATURES], norm = 0;
    for (int j = 0; j < FEATURES; j++)
        v[j] = 1;
    for (int times = 0; times < 100; times++) {
        memset(next, 0, sizeof next);
        for (int i = 0; i < SAMPLES; i++) {
            double dot = 0;
            for (int j = 0; j < FEATURES; j++)
                dot += features[i][j] * v[j];
            for (int j = 0; j < FEATURES; j++)
                next[j] += features[i][j] * dot / SAMPLES;
        }
        norm = 0;
        for (int j = 0; j < FEATURES; j++)
            norm = next[j] > norm ? next[j] : norm;
        for (int j = 0; j < FEATURES; j++)
            v[j] = next[j] / norm;
    }
    return 1 / (norm / 2 + 1.0 / SAMPLES);
}

static int train(softmax_type type, double step)
{
    static double w[WEIGHTS], ahead[WEIGHTS], slope[WEIGHTS];
    double size = 1, momentum = 1;
    int steps = 0;
    memset(w, 0, sizeof w);
    memset(ahead, 0, sizeof ahead);
    for (; steps < MOST_STEPS && size > 1e-10; steps++) {
        double along = 0, next_momentum = (1 + sqrt(1 + 4 * momentum * momentum)) / 2;
        objective(type, ahead, slope);
        size = 0;
        for (int k = 0; k < WEIGHTS; k++) {
            double next = ahead[k] - step * slope[k], move = next - w[k];
            along += slope[k] * move;
            size += slope[k] * slope[k];
            ahead[k] = next + (momentum - 1) / next_momentum * move;
            w[k] = next;
        }
        momentum = next_momentum;
        if (along > 0) { /* uphill: forget the momentum */
            momentum = 1;
            memcpy(ahead, w, sizeof w);
        }
    }
    double value = objective(SOFTMAX_FLOAT32, w, NULL), off = fabs(value - OPTIMUM);
    printf("%-8s logits: objective %.5f, %s of scikit-learn's optimum; %d of %d digits right\n", type == SOFTMAX_FLOAT32 ? "float32" : "bfloat16",
           value, off < 1e-6 ? "within 0.000001" : "NOT within 0.000001", correct, SAMPLES);
    return off < 1e-6;
}

int main(int count, char **arguments)
{
    if (count != 2 || !read_digits(arguments[1])) {
        fprintf(stderr, "usage: %s digits.npy\n", arguments[0]);
        return 1;
    }
    double step = step_size();
    int reached = train(SOFTMAX_FLOAT32, step), reached16 = train(SOFTMAX_BFLOAT16, step);
    return !(reached && reached16);
}
