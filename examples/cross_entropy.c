/* Loss and gradient of a small batch in one call; what goes wrong comes back as a status and words. */
#include <softmax.h>
#include <stdio.h>

int main(void)
{
    /* Three rows of logits over four classes: unsure, wrong, and so sure that a float32 sum forgets the others. */
    float logits[3][4] = {{1, 2, 3, 2}, {5, 0, 0, 0}, {0, 0, 0, 40}};
    int64_t targets[3] = {2, 1, 3};
    float loss[3], gradient[3][4];

    char words[200];
    softmax_options options = SOFTMAX_OPTIONS_INIT;
    options.reduction = SOFTMAX_NONE;
    options.message = words;
    options.message_bytes = sizeof words;
    if (softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 3, 4, logits, targets, loss, gradient, &options) != SOFTMAX_OK) {
        fprintf(stderr, "%s\n", words);
        return 1;
    }
    for (int row = 0; row < 3; row++) {
        printf("loss %-14.8g gradient", loss[row]);
        for (int column = 0; column < 4; column++)
            printf(" %14.7g", gradient[row][column]);
        printf("\n");
    }

    targets[1] = 7;
    softmax_status status = softmax_cross_entropy_rows(SOFTMAX_FLOAT32, 3, 4, logits, targets, loss, NULL, &options);
    printf("a target of 7: status %d (%s)\n", status, softmax_status_string(status));
    return 0;
}
