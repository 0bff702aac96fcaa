/* Runs the cases of a file, whose format `cases.py` describes. It knows none of the kernels that it is linked with:
`functions.h`, made from `kernels.h`, calls them.

For each case, prints `shown NAME BYTES` for buffers to show, `failed NAME: ...` for each difference, and `passed NAME`
if there was none. The exit status is not 0 only if the file cannot be read. */

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if __AMX_TILE__
#include <sys/syscall.h>
#include <unistd.h>
#endif

union argument {
    int64_t integer;
    double number;
    void *pointer;
};

struct function {
    const char *name;
    int64_t (*call)(const union argument *arguments); /* returns 0 if the function failed */
};

#include "functions.h"

enum { GUARD = 64, GUARD_BYTE = 0xa5 }; /* around every buffer */
enum { MAX_ARGUMENTS = 32 };
enum kind { INTEGER, NUMBER, POINTER };
enum type { OF_FLOAT32, OF_BFLOAT16, OF_INT32, OF_INT64, OF_FLOAT64, OF_BYTE };

struct buffer {
    char *start;
    int64_t size;
};

struct test_case {
    const char *name;
    struct buffer *buffers;
    int64_t num_buffers;
    int failed;
};

static const char *next, *end; /* of the file's bytes */

static void die(const char *what, const char *which) {
    fprintf(stderr, "%s: %s\n", which, what);
    exit(2);
}

static const char *read_bytes(int64_t size) {
    const char *bytes = next;
    if (size < 0 || size > end - next)
        die("ends too early", "file of cases");
    next += (size + 7) / 8 * 8;
    return bytes;
}

static int64_t read_integer(void) {
    int64_t value;
    memcpy(&value, read_bytes(sizeof value), sizeof value);
    return value;
}

static double real_at(const char *bytes, int64_t index) {
    double value;
    memcpy(&value, bytes + index * sizeof value, sizeof value);
    return value;
}

static char *read_address(const struct test_case *test) {
    int64_t buffer = read_integer(), offset = read_integer();
    return buffer < 0 ? NULL : test->buffers[buffer].start + offset;
}

static void fail(struct test_case *test, const char *format, ...) {
    va_list values;
    va_start(values, format);
    printf("failed %s: ", test->name);
    vprintf(format, values);
    printf("\n");
    va_end(values);
    test->failed = 1;
}

static void read_buffers(struct test_case *test) {
    test->num_buffers = read_integer();
    test->buffers = calloc(test->num_buffers + 1, sizeof *test->buffers);
    for (int64_t i = 0; i < test->num_buffers; i++) {
        int64_t size = read_integer();
        char *room = aligned_alloc(GUARD, (size + 3 * GUARD - 1) / GUARD * GUARD);
        memset(room, GUARD_BYTE, size + 2 * GUARD);
        memcpy(room + GUARD, read_bytes(size), size);
        test->buffers[i] = (struct buffer){ room + GUARD, size };
    }
}

/* Pointers in buffers. */
static void write_pointers(struct test_case *test) {
    for (int64_t left = read_integer(); left; left--) {
        char *place = read_address(test), *target = read_address(test);
        memcpy(place, &target, sizeof target);
    }
}

static union argument read_argument(const struct test_case *test) {
    union argument argument = { 0 };
    enum kind kind = read_integer();
    if (kind == POINTER)
        argument.pointer = read_address(test);
    else if (kind == NUMBER)
        argument.number = real_at(read_bytes(sizeof(double)), 0);
    else
        argument.integer = read_integer();
    return argument;
}

static const struct function *find_function(const char *name) {
    for (const struct function *function = functions; function->name; function++)
        if (!strcmp(function->name, name))
            return function;
    die("no such function", name);
    return NULL;
}

static const char *read_text(void) {
    return read_bytes(read_integer()); /* it ends with a zero */
}

static void call_functions(struct test_case *test) {
    for (int64_t left = read_integer(); left; left--) {
        const struct function *function = find_function(read_text());
        union argument arguments[MAX_ARGUMENTS];
        int64_t num_arguments = read_integer();
        if (num_arguments > MAX_ARGUMENTS)
            die("too many arguments", function->name);
        for (int64_t i = 0; i < num_arguments; i++)
            arguments[i] = read_argument(test);
        if (!function->call(arguments))
            fail(test, "%s returned 0", function->name);
    }
}

static double element(enum type type, const char *bytes, int64_t index) {
    union { float number; uint32_t bits; } value;
    uint16_t half;
    int32_t narrow;
    int64_t wide;
    switch (type) {
    case OF_FLOAT32: memcpy(&value, bytes + 4 * index, 4); return value.number;
    case OF_BFLOAT16: memcpy(&half, bytes + 2 * index, 2); value.bits = (uint32_t)half << 16; return value.number;
    case OF_INT32: memcpy(&narrow, bytes + 4 * index, 4); return narrow;
    case OF_INT64: memcpy(&wide, bytes + 8 * index, 8); return wide;
    case OF_FLOAT64: return real_at(bytes, index);
    default: return (unsigned char)bytes[index];
    }
}

static int is_near(double found, double expected, double bound) {
    return found == expected || fabs(found - expected) <= bound || (isnan(found) && isnan(expected));
}

static void compare_with_expected(struct test_case *test) {
    int64_t num_checks = read_integer();
    for (int64_t check = 0; check < num_checks; check++) {
        enum type type = read_integer();
        const char *bytes = read_address(test);
        int64_t count = read_integer(), first = -1, num_wrong = 0;
        const char *expected = read_bytes(count * 8), *bounds = read_bytes(count * 8);
        for (int64_t i = 0; i < count; i++)
            if (!is_near(element(type, bytes, i), real_at(expected, i), real_at(bounds, i)) && !num_wrong++)
                first = i;
        if (num_wrong)
            fail(
                test, "output %lld, element %lld: found %.9g, expected %.9g within %.3g; %lld of %lld are wrong",
                (long long)check, (long long)first, element(type, bytes, first), real_at(expected, first),
                real_at(bounds, first), (long long)num_wrong, (long long)count);
    }
}

static void compare_bits(struct test_case *test) {
    int64_t num_checks = read_integer();
    for (int64_t check = 0; check < num_checks; check++) {
        const char *left = read_address(test), *right = read_address(test);
        int64_t size = read_integer(), i = 0;
        while (i < size && left[i] == right[i])
            i++;
        if (i < size)
            fail(test, "pair %lld: byte %lld of %lld differs", (long long)check, (long long)i, (long long)size);
    }
}

static void show_buffers(const struct test_case *test) {
    for (int64_t left = read_integer(); left; left--) {
        struct buffer buffer = test->buffers[read_integer()];
        printf("shown %s ", test->name);
        for (int64_t i = 0; i < buffer.size; i++)
            printf("%02x", (unsigned char)buffer.start[i]);
        printf("\n");
    }
}

static void check_guards(struct test_case *test) {
    for (int64_t i = 0; i < test->num_buffers; i++)
        for (int side = 0; side < 2; side++) {
            const char *guard = test->buffers[i].start + (side ? test->buffers[i].size : -GUARD);
            int intact = 1;
            for (int j = 0; j < GUARD; j++)
                intact &= (unsigned char)guard[j] == GUARD_BYTE;
            if (!intact)
                fail(test, "memory %s buffer %lld was written", side ? "after" : "before", (long long)i);
        }
}

static void run_case(void) {
    struct test_case test = { .name = read_text() };
    read_buffers(&test);
    write_pointers(&test);
    call_functions(&test);
    compare_with_expected(&test);
    compare_bits(&test);
    show_buffers(&test);
    check_guards(&test);
    if (!test.failed)
        printf("passed %s\n", test.name);
    fflush(stdout); /* a crash leaves the names of the cases before it */
    for (int64_t i = 0; i < test.num_buffers; i++)
        free(test.buffers[i].start - GUARD);
    free(test.buffers);
}

static void read_file(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END))
        die("cannot be read", path);
    long size = ftell(file);
    char *bytes = malloc(size + 8);
    rewind(file);
    if (!bytes || fread(bytes, 1, size, file) != (size_t)size)
        die("cannot be read", path);
    fclose(file);
    next = bytes;
    end = bytes + size;
}

int main(int argc, char **argv) {
    if (argc != 2)
        die("give the file of cases", argv[0]);
#if __AMX_TILE__ /* Linux must be asked for the matrix tiles, as in `hardware/processor.py` */
    if (syscall(SYS_arch_prctl, 0x1023L, 18L))
        die("Linux refuses the matrix tiles", argv[0]);
#endif
    read_file(argv[1]);
    for (int64_t left = read_integer(); left; left--)
        run_case();
    return 0;
}
