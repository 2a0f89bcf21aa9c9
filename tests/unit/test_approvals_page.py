"""docs/reference/approvals.md: each marked sentence names tests that exist, and each mark is used."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

_HERE: Final = Path(__file__).resolve().parent
PAGE: Final = (_HERE.parents[1] / "docs" / "reference" / "approvals.md").read_text(encoding="utf-8")

_Q, _S, _P = "test_approvals", "test_approvals_shown", "test_approvals_processes"
_C, _D = "test_approvals_cli", "test_approvals_doors"

# sentence -> the tests that hold it, as (module, names)
HELD: Final[dict[str, tuple[tuple[str, str], ...]]] = {
    "A1": (
        (_Q, "test_only_an_escalation_can_be_released"),
        (
            _D,
            "test_a_block_is_never_released_and_asks_nobody"
            " test_a_rule_that_blocks_only_after_the_approval_still_blocks",
        ),
    ),
    "A2": ((_D, "test_on_escalate_is_asked_in_place_of_the_installed_approver"),),
    "A3": ((_Q, "test_a_late_missing_or_odd_answer_is_a_no_with_its_own_reason"),),
    "A4": ((_Q, "test_an_approval_holds_for_nothing_that_differs_in_one_part test_the_rules_count_as_a_set"),),
    "A5": ((_Q, "test_a_reason_is_frozen_to_512_bytes_and_cut_between_characters"),),
    "A6": ((_Q, "test_what_is_not_bound_does_not_matter"),),
    "A7": (
        (
            _D,
            "test_the_epoch_rises_only_with_the_digest_of_the_compiled_policy"
            " test_another_policy_needs_another_approval",
        ),
    ),
    "A8": ((_Q, "test_a_call_without_an_encoding_is_not_approved_by_anybody"),),
    "A9": ((_S, "test_the_scripts_that_a_command_runs test_only_what_runs_commands_names_scripts"),),
    "A10": (
        (
            _S,
            "test_a_script_that_changes_after_the_approval_voids_it"
            " test_a_script_that_appears_after_the_approval_voids_it",
        ),
    ),
    "A11": ((_S, "test_what_is_no_ordinary_file_is_never_read"),),
    "A12": ((_S, "test_too_many_scripts_and_too_long_commands_are_refused"),),
    "A13": (
        (
            _Q,
            "test_a_script_that_changes_while_somebody_decides_voids_the_yes"
            " test_a_policy_that_changes_while_somebody_decides_voids_the_yes",
        ),
        (_D, "test_a_script_that_changes_while_a_person_decides_voids_what_they_say"),
    ),
    "A14": (
        (_Q, "test_an_approved_call_goes_on_once_and_a_replay_does_not"),
        (
            _P,
            "test_of_several_processes_that_race_for_one_approval_exactly_one_wins"
            " test_of_many_threads_that_race_for_one_approval_exactly_one_wins",
        ),
    ),
    "A15": (
        (
            _P,
            "test_a_process_killed_in_the_middle_of_a_use_neither_loses_nor_doubles_the_approval"
            " test_an_approver_killed_before_its_yes_is_whole_has_said_nothing",
        ),
    ),
    "A16": (
        (_Q, "test_a_session_holds_for_its_own_span_alone test_what_belongs_to_no_session_cannot_be_approved_for_one"),
    ),
    "A17": ((_Q, "test_a_request_waits_as_long_as_it_may_and_a_late_yes_is_refused"),),
    "A18": ((_Q, "test_an_approval_may_be_used_as_long_as_it_says"),),
    "A19": ((_Q, "test_a_ttl_ends_when_it_says_and_not_with_the_use_clock"),),
    "A20": (
        (
            _Q,
            "test_a_clock_that_goes_back_voids_what_is_open_and_says_so_once"
            " test_a_clock_that_goes_back_a_little_stands_still",
        ),
    ),
    "A21": ((_Q, "test_the_same_call_asks_once_however_often_it_is_tried"),),
    "A22": ((_Q, "test_a_denied_request_is_not_asked_again_until_its_wait_is_over"),),
    "A23": ((_Q, "test_a_revoked_approval_holds_no_more test_a_request_is_answered_in_legal_orders_alone"),),
    "A24": (
        (_Q, "test_a_held_call_goes_on_once_somebody_answers test_a_held_call_that_nobody_answers_is_refused_in_time"),
    ),
    "A25": ((_Q, "test_a_flood_of_requests_is_refused_and_takes_no_approval_away"),),
    "A26": ((_Q, "test_nobody_approves_what_they_ask_for_themselves"),),
    "A27": (
        (
            _Q,
            "test_four_eyes_are_two_different_approvers_and_neither_asks test_two_approvers_have_to_mean_the_same"
            " test_one_no_is_enough_for_four_eyes",
        ),
    ),
    "A28": (
        (_Q, "test_an_approvers_name_can_be_told_from_every_other test_nobody_approves_what_they_ask_for_themselves"),
    ),
    "A29": ((_C, "test_the_configuration_names_the_queue test_a_queue_that_is_not_there_is_not_made"),),
    "A30": (
        (
            _C,
            "test_without_a_terminal_nothing_is_approved_and_standard_input_is_not_read"
            " test_in_the_background_of_a_terminal_nothing_is_approved",
        ),
    ),
    "A31": (
        (
            _C,
            "test_the_word_is_new_each_time_and_stands_neither_in_the_request_nor_in_the_queue"
            " test_a_word_that_the_text_holds_is_never_the_challenge"
            " test_what_was_typed_before_the_question_is_thrown_away",
        ),
    ),
    "A32": (
        (
            _C,
            "test_anything_but_the_word_leaves_it_as_it_is test_the_words_of_an_earlier_challenge_do_not_count"
            " test_who_does_not_answer_is_not_waited_for_for_ever",
        ),
    ),
    "A33": (
        (
            _C,
            "test_under_a_guarded_process_nothing_is_approved_whatever_terminal_it_made"
            " test_under_a_coding_agent_nothing_is_approved_even_where_the_command_forgets_its_variables",
        ),
    ),
    "A34": (
        (_C, "test_where_nobody_can_tell_who_started_it_nothing_is_approved"),
        (_P, "test_a_lineage_that_cannot_be_read_is_no_lineage test_a_lineage_without_end_is_no_lineage"),
    ),
    "A35": ((_C, "test_a_script_that_changed_meanwhile_is_not_approved"),),
    "A36": (
        (
            _C,
            "test_no_and_taking_a_yes_back_need_no_terminal test_list_shows_what_is_open_and_all_what_is_over_too"
            " test_show_prints_the_request_and_json_all_of_it",
        ),
    ),
    "A37": (
        (_S, "test_everything_that_is_bound_is_shown test_evidence_that_cannot_be_shown_says_why"),
        (_D, "test_what_was_rewritten_is_what_is_approved_and_what_goes_on"),
    ),
    "A38": (
        (
            _S,
            "test_what_a_screen_could_hide_or_act_on_is_written_out_wherever_it_stands"
            " test_a_visible_text_holds_nothing_invisible_and_can_be_read_back"
            " test_a_mark_that_an_argument_forges_can_be_told_from_ours",
        ),
    ),
    "A39": ((_S, "test_a_line_of_an_argument_cannot_pass_for_a_line_of_ours"),),
    "A40": ((_S, "test_a_letter_that_looks_like_another_is_pointed_at"),),
    "A41": (
        (
            _S,
            "test_a_long_text_says_how_much_is_left_out_and_full_shows_it"
            " test_many_members_and_deep_ones_say_how_many_are_left_out"
            " test_blank_lines_do_not_push_a_command_off_the_screen",
        ),
    ),
    "A42": ((_S, "test_a_call_too_large_to_be_read_is_refused_in_one_line"),),
    "A43": (
        (_S, "test_a_text_that_is_not_what_the_digest_binds_is_shown_to_nobody"),
        (_C, "test_a_row_that_says_something_else_than_its_digest_is_neither_shown_nor_approved"),
    ),
    "A44": ((_D, "test_without_a_queue_an_escalation_stays_the_agents_own_question"),),
    "A45": ((_D, "test_with_a_queue_it_is_denied_with_the_request_and_goes_on_once_it_is_approved"),),
    "A46": ((_D, "test_what_needs_no_approval_opens_no_queue"),),
    "A47": (
        (
            _D,
            "test_a_guarded_agent_does_not_touch_the_queue test_a_guarded_agent_does_not_run_the_command_that_approves",
        ),
    ),
    "A48": ((_D, "test_the_hook_notes_the_agent_that_runs_it_and_not_itself"),),
    "A49": ((_P, "test_the_queue_is_private_durable_and_of_its_own_kind test_two_processes_make_the_queue_at_once"),),
    "A50": ((_Q, "test_what_was_shown_is_forgotten_once_it_is_over_and_the_row_after_a_month"),),
    "A51": (
        (
            _P,
            "test_a_queue_behind_a_symbolic_link_is_refused test_a_queue_with_a_second_name_is_refused"
            " test_a_queue_of_another_user_is_refused"
            " test_a_queue_in_a_folder_that_everybody_can_write_is_refused"
            " test_a_file_that_is_no_database_is_refused test_a_database_that_is_damaged_later_is_refused"
            " test_the_database_of_another_role_and_of_a_newer_version_are_refused"
            " test_a_full_disk_refuses_and_grants_nothing test_a_queue_that_somebody_holds_is_refused_after_a_while",
        ),
    ),
    "A52": ((_P, "test_a_full_disk_takes_no_approval_and_grants_none"),),
    "A53": ((_D, "test_an_approval_holds_for_the_pinned_server_that_the_program_named"),),
}


def test_each_marked_sentence_is_held_by_tests_that_exist() -> None:
    assert sorted(set(re.findall(r"\[(A[0-9]+)\]", PAGE))) == sorted(HELD)
    missing = [
        f"{module}.{name}"
        for rows in HELD.values()
        for module, names in rows
        for name in names.split()
        if name not in _tests_of(module)
    ]
    assert not missing, missing


def test_every_sentence_of_the_rules_carries_a_mark() -> None:
    rules = PAGE.split("## What a yes is tied to")[1].split("## Limits of one user id")[0]
    prose = re.sub(r"```.*?```", "", rules, flags=re.S)
    last_words = [line for line in prose.splitlines() if line.strip() and not line.startswith(("|", "#", "Two clocks"))]
    unmarked = [line for line in last_words if not line.rstrip().endswith("]") and "Not seen:" not in line]
    assert [line[:60] for line in unmarked if not _goes_on(line)] == []


def _goes_on(line: str) -> bool:
    """A sentence that the next line ends."""
    return not line.rstrip().endswith(".")


def _tests_of(module: str) -> set[str]:
    tree = ast.parse((_HERE / f"{module}.py").read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
