/* scripted_provider.h - a provider for tests that misbehaves on command. Instances and commands are simulated; nothing runs.
 *
 * It stands for a remote control plane: what "really" is there is kept outside the process that uses it, in the directory PADDOCK_SCRIPTED_DIR, and outlives a
 * kill -9 of it; time goes on there meanwhile (a command of two seconds is over after two seconds). Linked in place of the registry it answers to every
 * name: "container" has instances of one Run and no pause, any other (host, ...) has PERSISTENT|PAUSE|RELEASE|MOUNTS. tests/lib/paddock-executor-scripted
 * is the executor over it. What a command text may be: scripted_plan.h. What became of all: the file `truth`, scripted_world.h.
 *
 * The file `script` in the directory says how to misbehave. It is read anew at each call, and looked at when it is renamed into place (write it aside).
 * One rule a line (or parted by `;`); the first that matches is taken; lines that begin with # are comments (a new comment makes it a new script, whose counts begin again):
 *
 *     CALL FAULT [times N] [skip N] [chance 0..1] [of INSTANCE|WORKSPACE]        · seed N (for chance)
 *
 * CALL: create adopt lookup wake pause keep destroy list exec exec_stdin exec_ack exec_signal exec_kill scope_end; `any` of them and of health (with a rule it
 * is not well: "any reject unavailable" is a control plane that is away); or `now`: at once, without a call, once.
 * Without `times` always; `skip`: so many are spared first. FAULT:
 *
 *     late MS          done at once, answered after MS
 *     slow MS          create, wake, pause: takes MS, also when the caller dies meanwhile; then answered
 *     lost [MS]        done, never answered; after MS (200) the answer is ERR_UNKNOWN: FAILED, WAKE_FAILED, PAUSE_FAILED, KEEP_FAILED, DESTROY_FAILED,
 *                      scope_ended and listed with an error. lookup: silence. exec: it runs, nothing is told of it until there is a new contact
 *     silent           done, never answered at all
 *     twice            answered twice (exec: its end is)
 *     refuse CODE      not done; the answer, later, is unavailable | busy | limit | denied | unknown | not_found. lookup: silence. exec: not started
 *     reject CODE      the same as the call's own return
 *     says STATE       lookup: running | paused | gone | at_it | failed, whatever is true. list: so many of it as one can say: running | paused | other
 *     part N           list: at most N of it, complete = false
 *     vanish           the instance is gone before the call is looked at, without a word: create makes it and it vanishes
 *     pause            the instance (if such ones pause) pauses by itself before the call is looked at; it is told
 *     stuck [MS]       pause: it is on the way for MS, without: for ever (till `now settle` or destroy)
 *     fail             create, wake: comes to a bad end; FAILED or WAKE_FAILED (unavailable) is told
 *
 * `now` knows vanish, pause (told: EXITED, PAUSED), lose_contact, contact, settle (what is stuck or slow is done), and needs `of`.
 *
 * PADDOCK_SCRIPTED_BREAK names one rule of the contract to be broken, for the negative controls of the conformance suite (scripted_provider.c lists them). */
#ifndef PADDOCK_TESTS_SCRIPTED_PROVIDER_H
#define PADDOCK_TESTS_SCRIPTED_PROVIDER_H

#include "provider/provider.h"

extern const struct provider_ops scripted_persistent, scripted_per_run;

/* Puts the script in place, as a test in C does it; text NULL: none. */
void scripted_script(const char *dir, const char *text);

#endif
