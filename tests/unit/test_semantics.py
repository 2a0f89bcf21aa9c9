"""docs/reference/semantics.md: each sentence carries a mark, and each mark names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

import pytest

from interlock.engine.decision import Verdict
from interlock.engine.refusals import REASONS

_HERE: Final = Path(__file__).parent
_PAGE: Final = _HERE.parents[1] / "docs" / "reference" / "semantics.md"
_MARK: Final = re.compile(r"\[(S[0-9]+)\]")

_F, _E, _D, _G = "test_semantics_fold", "test_engine_evaluate", "test_engine_doors", "test_guard"
_R, _A, _L = "test_semantics_refusals", "test_semantics_attribution", "test_engine_live"

# sentence -> the tests that hold it, as (module, names)
HELD: Final[dict[str, tuple[str, str]]] = {
    "S1": (_G, "test_call_and_result_share_a_call_id test_a_blocked_result_is_kept_back_after_the_tool_ran"),
    "S2": (_E, "test_call_rules_see_calls_and_result_rules_results"),
    "S3": (_E, "test_a_phase_that_no_rule_sees_is_never_allowed"),
    "S4": (_E, "test_no_objection_is_allow test_what_is_no_decision_blocks"),
    "S5": ("test_semantics", "test_the_four_verdicts_have_their_numbers"),
    "S6": (_E, "test_a_rule_cannot_change_what_it_sees test_arguments_are_never_changed_and_rewrites_fold_in_order"),
    "S7": (_R, "test_an_evaluator_reads_the_callers_own_arguments_where_nobody_keeps_or_watches"),
    "S8": (_R, "test_a_mapping_of_the_callers_own_is_read_once_and_what_is_judged_goes_on"),
    "S9": (_E, "test_no_objection_is_allow test_a_later_rule_judges_the_rewritten_call"),
    "S10": (_E, "test_a_block_ends_evaluation test_the_verdict_is_the_gravest_that_was_reached"),
    "S11": (_E, "test_a_block_wins_over_an_earlier_rewrite_and_comes_back_as_its_rule_gave_it"),
    "S12": (_E, "test_a_later_rule_judges_the_rewritten_call"),
    "S13": (_E, "test_the_later_writer_of_one_argument_wins_and_the_first_rewrite_names_the_decision"),
    "S14": (_E, "test_a_single_rewrite_comes_back_exactly_as_its_rule_gave_it"),
    "S15": (_E, "test_the_later_writer_of_one_argument_wins_and_the_first_rewrite_names_the_decision"),
    "S16": (_D, "test_a_rewrite_gives_new_arguments_and_leaves_the_callers_own"),
    "S17": (_D, "test_a_rule_that_hands_back_what_it_saw_gives_the_tool_ordinary_values"),
    "S18": (_E, "test_an_escalation_waits_until_no_rule_blocks"),
    "S19": (
        _E,
        "test_an_escalation_carries_the_rewrites_and_all_evidence"
        " test_evidence_of_two_rules_under_one_name_is_all_kept",
    ),
    "S20": (
        _F,
        "test_a_rule_before_the_rewrite_blocks_what_the_rewrite_made"
        " test_a_rule_before_the_rewrite_escalates_what_the_rewrite_made",
    ),
    "S21": (_F, "test_a_second_judgement_takes_no_rewrite_and_no_proof"),
    "S22": (_F, "test_a_rule_that_escalated_already_is_not_heard_a_second_time"),
    "S23": (_F, "test_an_escalation_of_the_call_as_it_came_stays_after_a_rewrite"),
    "S24": (_F, "test_a_rule_that_fails_on_the_rewritten_call_blocks"),
    "S25": (_F, "test_only_the_rules_before_the_last_rewrite_judge_twice"),
    "S26": (_F, "test_where_nothing_is_rewritten_each_rule_judges_once"),
    "S27": (_F, "test_what_goes_on_is_a_call_that_no_rule_objects_to"),
    "S28": (_F, "test_a_block_wins_in_any_order_of_rules_that_do_not_rewrite"),
    "S29": (_F, "test_a_rule_that_does_not_rewrite_never_weakens_wherever_it_is_added"),
    "S30": (_F, "test_any_rule_that_is_added_at_the_end_never_weakens"),
    "S31": (_F, "test_judging_again_what_nobody_rewrote_says_the_same"),
    "S32": (_E, "test_a_result_that_is_a_mapping_stands_for_itself_and_anything_else_under_result"),
    "S33": (
        _F,
        "test_a_result_rewrite_stands_for_the_whole_value_in_its_own_shape test_a_masked_result_keeps_its_shape",
    ),
    "S34": (_F, "test_of_two_result_rewrites_the_later_stands_and_the_first_names_it"),
    "S35": (_F, "test_results_are_judged_once_whatever_is_rewritten"),
    "S36": (_E, "test_arguments_rewritten_on_a_result_block"),
    "S37": (_G, "test_a_blocked_result_is_kept_back_after_the_tool_ran"),
    "S38": (_D, "test_a_result_of_an_unknown_type_blocks_where_a_rule_would_judge_it"),
    "S39": (_F, "test_a_proof_stands_where_nobody_objects"),
    "S40": (_F, "test_any_objection_cancels_a_proof"),
    "S41": (_F, "test_a_shadow_rule_is_asked_at_its_place_and_only_once"),
    "S42": (
        _F,
        "test_a_shadow_rule_is_recorded_and_decides_nothing test_shadow_rules_anywhere_change_nothing"
        " test_a_proof_of_a_shadow_rule_proves_nothing",
    ),
    "S43": (_F, "test_a_shadow_rule_that_fails_is_recorded_as_failed_and_blocks_nothing"),
    "S44": (_D, "test_every_verdict_has_an_ending"),
    "S45": (
        _D,
        "test_a_rewrite_gives_new_arguments_and_leaves_the_callers_own test_results_go_through_their_own_rules",
    ),
    "S46": (_D, "test_a_block_says_what_who_and_why"),
    "S47": (_D, "test_an_approver_sees_the_rewritten_call_and_releases_it"),
    "S48": ("test_semantics_settle", "test_a_fifth_verdict_is_settled_as_a_block"),
    "S49": (_R, "test_a_verdict_that_an_evaluator_makes_up_blocks_at_both_doors"),
    "S50": ("test_semantics_settle", "test_a_block_is_never_put_to_an_approver"),
    "S51": (_D, "test_anything_but_a_yes_refuses test_an_approver_sees_the_rewritten_call_and_releases_it"),
    "S52": (_D, "test_what_needs_approval_is_refused_without_an_approver"),
    "S53": (
        _G,
        "test_on_escalate_is_asked_in_place_of_the_installed_approver_before_the_function_runs"
        " test_what_on_escalate_does_not_release_does_not_run",
    ),
    "S54": (_D, "test_a_call_that_changes_while_it_waits_is_refused"),
    "S55": (_D, "test_monitor_records_and_never_blocks_or_rewrites"),
    "S56": (_D, "test_a_mode_that_does_not_exist_is_misuse"),
    "S57": ("test_semantics_settle", "test_the_receipt_is_written_before_the_tool_runs"),
    "S58": (_D, "test_observers_are_told_the_call_as_it_was_and_their_failures_are_counted"),
    "S59": (_R, "test_each_row_refuses_in_its_own_words_and_shows_no_value test_every_row_is_reached_here"),
    "S60": (_R, "test_each_row_refuses_in_its_own_words_and_shows_no_value"),
    "S61": (_D, "test_a_rule_that_raises_is_the_cause_of_the_block"),
    "S62": (_R, "test_each_row_refuses_in_its_own_words_and_shows_no_value"),
    "S63": (_D, "test_an_argument_of_an_unknown_type_blocks_with_its_type_named"),
    "S64": (_D, "test_a_failed_install_leaves_what_was_there"),
    "S65": (_D, "test_before_any_install_nothing_passes"),
    "S66": (
        _A,
        "test_whatever_a_detector_finds_it_attributes_to_an_argument_or_to_none"
        " test_whatever_a_built_in_rule_objects_to_in_its_examples_is_attributed"
        " test_a_declared_rule_names_its_argument_just_where_the_event_has_it",
    ),
    "S67": (_A, "test_whatever_a_detector_finds_it_attributes_to_an_argument_or_to_none"),
    "S68": (_L, "test_the_epoch_rises_only_when_the_digest_changes"),
    "S69": (_L, "test_a_bad_source_leaves_the_last_good_policy_and_says_so"),
    "S70": ("test_semantics_settle", "test_a_call_is_judged_and_recorded_under_one_policy_and_epoch"),
    "S71": (_L, "test_no_call_waits_for_a_long_load_and_until_then_the_last_good_policy_holds"),
    "S72": (_E, "test_code_rules_count_in_the_digest_by_name"),
    "S73": (
        "test_engine_odd_values",
        "test_a_text_is_judged_by_its_characters test_a_number_is_judged_by_its_value"
        " test_names_of_tools_and_principals_are_their_characters",
    ),
    "S74": (
        "test_engine_odd_values",
        "test_what_reads_in_two_ways_is_refused_and_named test_a_name_that_is_given_twice_in_disguise_is_refused",
    ),
    "S75": (
        "test_engine_odd_values",
        "test_what_json_has_not_is_judged_as_it_would_be_written_there test_every_member_of_a_set_is_judged",
    ),
    "S76": (
        "test_engine_odd_values",
        "test_what_changes_while_it_is_judged_does_not_go_on test_ordinary_subclasses_are_judged_and_go_on_as_they_are"
        " test_a_result_that_changes_while_it_is_judged_does_not_reach_the_agent",
    ),
    "S77": ("test_engine_odd_values", "test_what_changes_after_the_door_has_answered_is_the_callers_own"),
}


def _blocks(page: str) -> list[str]:
    """The text that says something: no headings, tables, quotes or code; a paragraph each, in one line."""
    prose = re.sub(r"```.*?```", "", page, flags=re.S)
    paragraphs = ("\n".join(_said(part)) for part in prose.split("\n\n"))
    return [" ".join(text.split()) for text in paragraphs if text.strip()]


def _said(paragraph: str) -> list[str]:
    return [line for line in paragraph.splitlines() if not line.startswith(("#", "|", ">"))]


def unmarked(page: str) -> list[str]:
    """Sentences without a mark, and what stands between two marks where that is not one sentence."""
    wrong: list[str] = []
    for block in _blocks(page):
        *marked, rest = _MARK.split(block)[::2]
        wrong += [s for s in marked if not re.fullmatch(r" ?[^.]*(\.[^ ][^.]*)*\. ", s)]
        wrong += [rest] if rest.strip() else []
    return wrong


def _tests_of(module: str) -> set[str]:
    tree = ast.parse((_HERE / f"{module}.py").read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


def test_every_sentence_carries_a_mark() -> None:
    assert unmarked(_PAGE.read_text()) == []


@pytest.mark.parametrize("page", ["A claim.", "One. Two. [S1]", "A claim. [S1] Another one.", "No stop [S1]"])
def test_a_sentence_without_a_mark_is_found(page: str) -> None:
    assert unmarked(page)


def test_marks_run_in_order_and_each_names_tests() -> None:
    marks = _MARK.findall(_PAGE.read_text())
    assert marks == [f"S{n}" for n in range(1, len(marks) + 1)]
    assert list(HELD) == marks


@pytest.mark.parametrize("mark", HELD)
def test_the_tests_that_a_mark_names_exist(mark: str) -> None:
    module, names = HELD[mark]
    assert set(names.split()) <= _tests_of(module)


def test_the_table_of_refusals_is_the_one_in_the_code() -> None:
    rows = re.findall(r"^\| `(interlock\.[a-z-]+)` \|", _PAGE.read_text(), flags=re.M)
    assert rows == list(REASONS)


def test_the_four_verdicts_have_their_numbers() -> None:
    assert {v.name: v.value for v in Verdict} == {"ALLOW": 0, "BLOCK": 1, "MODIFY": 2, "ESCALATE": 3}
