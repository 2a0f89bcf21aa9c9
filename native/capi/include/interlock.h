/* interlock's native engine, C ABI. SPDX-License-Identifier: Apache-2.0
 *
 * A plan is compiled once and may be used by any number of threads at the same time. Everything is JSON in UTF-8;
 * nothing that is passed in is kept. A call that fails returns NULL, and il_last_error says why: whoever asked
 * refuses the action. No call unwinds or ends the program.
 */
#ifndef INTERLOCK_H
#define INTERLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The contract that this header describes. */
#define IL_ABI_VERSION 4u

/* The answers; il_decision_verdict gives one of them. */
#define IL_ALLOW 0
#define IL_BLOCK 1
#define IL_MODIFY 2
#define IL_ESCALATE 3

typedef struct il_plan il_plan;
typedef struct il_decision il_decision;

/* The contract that the loaded library speaks; where it differs from IL_ABI_VERSION, do not go on. */
uint32_t il_abi_version(void);

/* A plan, as interlock/native/planner.py writes it. NULL where it is none, or where a rule of it is refused. */
il_plan *il_plan_new(const uint8_t *json, size_t size);

/* Frees a plan; NULL is none. */
void il_plan_free(il_plan *plan);

/* All rules of a plan over one event:
 *   {"action": "Bash", "args": {...}, "phase": "call", "principal": null, "cwd": null, "wrapped": false,
 *    "origins": [{"source": "tool:x", "path": "body"}], "server_pin": null, "links": {"/tmp/x": "/etc/passwd"}}
 * Needed are action and args. "wrapped" is true of a result that was no object and stands under "result". "server_pin"
 * is the digest of the MCP tool's pinned listing. "links" says where paths lead once each symbolic link is followed: the
 * engine asks no file system. Where a rule has to know it of a path that is not there, the decision blocks and names all
 * such paths in "leads"; whoever has a file system follows them and asks again.
 * NULL where the event cannot be read, or where the engine failed. */
il_decision *il_evaluate(const il_plan *plan, const uint8_t *event, size_t size);

/* The verdict; IL_BLOCK for NULL. */
int32_t il_decision_verdict(const il_decision *decision);

/* The decision as JSON, NUL-terminated, valid until il_decision_free; NULL for NULL:
 *   {"verdict": "modify", "reason": "...", "policy_id": "...", "attributed_to": "body", "args": {...} or null,
 *    "rewritten": ["body"], "shadows": [["rule", {...}]], "leads": ["/tmp/x"]}
 * "args" are the arguments after all rewrites, null where nothing was rewritten. "leads" is there only where it asks. */
const char *il_decision_json(const il_decision *decision);

/* Frees a decision; NULL is none. */
void il_decision_free(il_decision *decision);

/* What went wrong in the last failed call of this thread, one line, valid until its next call; NULL for nothing. */
const char *il_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
