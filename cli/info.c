#include "info.h"

#include <softmax.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_instruction_sets(void)
{
    const char *chosen = softmax_isa_default();
    const char *forced = getenv("SOFTMAX_ISA");
    puts("instruction sets (built, best last)");
    for (int i = 0; i < softmax_isa_count(); i++) {
        const char *name = softmax_isa_name(i);
        bool is_default = chosen && strcmp(name, chosen) == 0;
        printf("  %-10s %s%s\n", name, softmax_isa_available(i) ? "available" : "not on this machine",
               is_default ? ", default" : "");
    }
    if (forced && *forced)
        printf("  SOFTMAX_ISA=%s%s\n", forced, chosen ? "" : ": names none that is available; calls fail");
}

/* The value of the first line of /proc/cpuinfo with this key, or "" on systems without it. */
static void processor_name(char *name, size_t bytes)
{
    char line[512];
    name[0] = '\0';
    FILE *file = fopen("/proc/cpuinfo", "r");
    while (file && !*name && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (colon && strncmp(line, "model name", 10) == 0)
            snprintf(name, bytes, "%s", colon + 2);
    }
    name[strcspn(name, "\n")] = '\0';
    if (file)
        fclose(file);
}

static bool read_cache_field(int index, const char *field, char *text, int bytes)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, field);
    FILE *file = fopen(path, "r");
    bool found = file && fgets(text, bytes, file);
    if (file)
        fclose(file);
    if (found)
        text[strcspn(text, "\n")] = '\0';
    return found;
}

static void print_caches(void)
{
    char level[32], type[32], size[32], shared[64];
    int index = 0;
    puts("caches");
    while (read_cache_field(index, "level", level, sizeof level) &&
           read_cache_field(index, "type", type, sizeof type) && read_cache_field(index, "size", size, sizeof size) &&
           read_cache_field(index, "shared_cpu_list", shared, sizeof shared)) {
        printf("  L%s %-12s %s (processors %s)\n", level, type, size, shared);
        index++;
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    if (index == 0)
        printf("  L1 Data %ld, L2 %ld, L3 %ld bytes\n", sysconf(_SC_LEVEL1_DCACHE_SIZE), sysconf(_SC_LEVEL2_CACHE_SIZE),
               sysconf(_SC_LEVEL3_CACHE_SIZE));
#endif
}

static void print_cuda_devices(void)
{
    char words[256];
    int count = softmax_cuda_device_count();
    if (count <= 0) {
        softmax_cuda_device_words(0, words, sizeof words);
        printf("  CUDA: none; %s\n", words);
    }
    for (int i = 0; i < count; i++) {
        softmax_cuda_device_words(i, words, sizeof words);
        printf("  CUDA %d: %s\n", i, words);
    }
    if (count >= 0) {
        printf("  CUDA kernels:");
        for (int i = 0; softmax_cuda_kernel_name(i); i++)
            printf(" %s", softmax_cuda_kernel_name(i));
        puts("");
    }
}

void info(void)
{
    char name[256];
    processor_name(name, sizeof name);
    softmax_options defaults = SOFTMAX_OPTIONS_INIT;
    printf("libsoftmax %s (block of %d columns)\n", softmax_version(), SOFTMAX_BLOCK_COLUMNS);
    print_instruction_sets();
    printf("devices\n  CPU: %s%s%ld processors\n", name, *name ? ", " : "", sysconf(_SC_NPROCESSORS_ONLN));
    print_cuda_devices();
    print_caches();
    printf("defaults\n  op softmax, axis -1, scale %g, softcap none, empty-rows nan, threads as many as are worth it\n"
           "  cross_entropy: reduction mean, ignore-index %lld, label-smoothing %g, z-loss %g\n",
           defaults.scale, (long long)defaults.ignore_index, defaults.label_smoothing, defaults.z_loss);
}
