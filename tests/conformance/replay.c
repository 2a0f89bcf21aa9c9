/* Judges events by a plan through the C ABI: replay PLAN EVENTS; an event a line, a decision a line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interlock.h"

static char *whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) return NULL;
    long length = ftell(file);
    if (length < 0 || fseek(file, 0, SEEK_SET) != 0) return NULL;
    char *data = malloc((size_t)length + 1);
    if (data == NULL) return NULL;
    *size = fread(data, 1, (size_t)length, file);
    fclose(file);
    return data;
}

static int judged(const il_plan *plan, const char *event, size_t size) {
    il_decision *decision = il_evaluate(plan, (const uint8_t *)event, size);
    if (decision == NULL) {
        printf("refused: %s\n", il_last_error());
        return il_decision_verdict(decision) == IL_BLOCK ? 0 : 1;
    }
    printf("%s\n", il_decision_json(decision));
    int odd = il_decision_verdict(decision) < IL_ALLOW || il_decision_verdict(decision) > IL_ESCALATE;
    il_decision_free(decision);
    return odd;
}

int main(int argc, char **argv) {
    size_t plan_size = 0, size = 0;
    if (argc != 3 || il_abi_version() != IL_ABI_VERSION) return 2;
    char *json = whole(argv[1], &plan_size), *events = whole(argv[2], &size);
    if (json == NULL || events == NULL) return 2;
    il_plan *plan = il_plan_new((const uint8_t *)json, plan_size);
    if (plan == NULL) {
        printf("refused: %s\n", il_last_error());
        return 1;
    }
    int bad = 0;
    for (size_t from = 0; from < size;) {
        char *end = memchr(events + from, '\n', size - from);
        size_t length = end == NULL ? size - from : (size_t)(end - events) - from;
        bad |= judged(plan, events + from, length);
        from += length + 1;
    }
    il_plan_free(plan);
    free(json);
    free(events);
    return bad;
}
