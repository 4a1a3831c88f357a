//! The cases, one topic per file. The name and the doc of a case state a fact about every engine.

pub mod competing;
pub mod consume;
pub mod control;
pub mod delay;
pub mod enqueue;
pub mod events;
pub mod failed;
pub mod moving;
pub mod pause;
pub mod priority;
pub mod retry;
pub mod seat;
pub mod shutdown;
pub mod solo;
pub mod visit;

/// Generates a test for each case of the suite, in a module of this name. See
/// [`conformance`](crate::engine::conformance).
#[macro_export]
macro_rules! conformance {
    ($module:ident, $store:expr, delays = $delays:ident) => {
        $crate::conformance! { @all $module, $store, no $delays no no no no }
    };
    (
        $module:ident,
        $store:expr,
        delays = $delays:ident,
        control = $control:ident,
        shared = $shared:ident,
        admits = $admits:ident,
        departs = $departs:ident
    ) => {
        $crate::conformance! { @all $module, $store, yes $delays $control $shared $admits $departs }
    };
    (
        @all $module:ident,
        $store:expr,
        $administers:ident $delays:ident $control:ident $shared:ident $admits:ident
        $departs:ident
    ) => {
        mod $module {
            #[allow(unused_imports)]
            use super::*;

            $crate::conformance! { @cases yes "", $store;
                enqueue::a_job_comes_back_as_it_was_pushed
                enqueue::a_job_may_have_nothing_but_a_payload
                enqueue::due_jobs_come_in_the_order_in_which_they_were_pushed
                enqueue::many_jobs_in_one_call_all_arrive_once
                enqueue::many_callers_at_once_all_get_their_answer
                enqueue::a_payload_of_a_mebibyte_arrives_unchanged
                enqueue::a_payload_may_be_any_bytes_or_none
                enqueue::one_call_may_push_to_several_queues
                enqueue::one_id_pushed_twice_gives_two_jobs
                enqueue::declaring_again_keeps_the_jobs
                enqueue::nothing_to_do_is_done
                consume::an_unknown_queue_is_not_found
                consume::a_waiting_consumer_gets_what_is_pushed_later
                consume::a_completed_job_is_gone
                consume::a_consumer_holds_no_more_than_its_prefetch
                consume::settling_makes_room_for_the_next_job
                consume::a_raised_prefetch_brings_more_jobs
                consume::jobs_keep_their_order_while_the_prefetch_changes
                consume::a_consumer_hands_back_what_it_took_ahead
                consume::a_dropped_delivery_is_handed_back
                consume::a_released_job_comes_back_as_the_same_attempt
                consume::a_dropped_consumer_hands_back_what_nobody_took
                consume::a_job_that_is_handed_back_often_is_not_suspected
                consume::a_job_in_hand_outlives_its_consumer
                consume::an_expired_job_is_delivered_all_the_same
                retry::a_snooze_keeps_the_attempt
                retry::a_job_keeps_its_content_through_retries_and_snoozes
                retry::attempts_are_counted_through_rounds_of_one_wait
                retry::attempts_are_counted_through_rounds_of_changing_waits
                retry::attempts_are_counted_for_each_job_by_itself
                retry::a_short_wait_is_not_held_up_behind_a_long_one
                retry::an_undeclared_short_wait_is_not_held_up_behind_a_long_one
                competing::each_job_goes_to_one_of_two_consumers
                competing::a_consumer_takes_one_queue_only
                shutdown::a_stopped_consumer_hands_back_what_nobody_took
                shutdown::jobs_in_hand_can_be_settled_after_a_stop
                shutdown::a_closed_engine_ends_its_consumers
                shutdown::closing_twice_is_closing_once
            }
            $crate::conformance! { @cases $administers "this engine moves jobs alone", $store;
                consume::counts_tell_ready_waiting_and_failed_apart
                consume::an_unknown_queue_counts_as_empty
                failed::a_failed_job_is_listed_with_its_story
                failed::a_job_without_a_name_has_that_of_its_queues_only_job
                failed::every_reason_is_kept
                failed::an_error_of_8_kib_is_kept
                failed::one_failed_job_is_retried_with_fresh_attempts
                failed::all_failed_jobs_are_retried
                failed::failed_jobs_are_discarded
                failed::what_is_not_there_is_no_error
                failed::looking_disturbs_nothing
                visit::a_visit_sees_all_jobs_oldest_first
                visit::a_visit_settles_each_job_by_its_verdict
                visit::a_visit_ends_when_it_has_seen_enough
                visit::visits_follow_one_another
                visit::a_visit_sees_payloads_that_nobody_can_read
                visit::a_job_may_be_retried_for_a_single_attempt
                visit::operations_that_retry_a_job_are_named
                visit::failed_jobs_of_one_id_are_told_apart
                visit::a_visit_that_panics_loses_nothing
                events::an_event_reaches_every_subscriber
                events::an_event_reaches_a_queue_once
                events::a_pattern_means_topics_as_in_amqp
                events::a_retry_of_an_event_is_its_subscribers_own
                events::an_event_that_is_retried_is_its_subscribers_own
                events::an_event_waits_for_its_subscribers_workers
                events::only_a_mandatory_event_needs_a_subscriber
                events::subscriptions_are_added_and_ended_one_by_one
                events::a_subscriber_with_jobs_is_deleted_by_force_alone
                events::a_subscriber_with_consumers_is_deleted_by_force_alone
                events::the_end_of_a_deleted_job_concerns_no_other
                solo::an_isolated_job_is_started_alone
                solo::the_parts_of_a_queue_make_its_counts
                solo::several_isolated_jobs_are_started_one_by_one
                solo::a_start_that_is_handed_back_does_not_count
                solo::a_job_that_ran_alone_is_retried_as_any_other
                seat::a_seat_has_one_holder
                seat::a_wait_for_a_seat_can_be_dropped
                seat::a_seat_is_there_when_it_is_used
                seat::each_queue_has_a_seat
                seat::a_value_outlives_its_holder
                seat::changes_come_until_they_are_in_the_list
                seat::many_changes_are_in_the_list
                seat::a_seat_ends_with_its_queue
                seat::a_step_enqueues_jobs
                seat::a_job_that_is_refused_ends_no_seat
                seat::what_no_seat_takes_is_an_error
                priority::jobs_of_one_priority_hold_up_no_others
                priority::a_priority_is_kept_through_retries_and_snoozes
                priority::a_priority_is_kept_by_solo_runs_and_by_failed_jobs
                priority::jobs_of_each_priority_are_counted
                priority::a_queue_has_priorities_when_it_is_declared_with_them
                shutdown::calls_on_a_closed_engine_say_so
            }
            $crate::conformance! { @cases $delays "this engine has no initial delays", $store;
                delay::a_delayed_job_does_not_come_before_its_time
                delay::a_delayed_job_comes_as_it_was_pushed
                delay::a_delayed_job_holds_up_no_other
                delay::delayed_jobs_come_in_the_order_of_their_times
                delay::a_delayed_job_is_counted_as_waiting
            }
            $crate::conformance! { @both $administers $delays "this engine moves jobs alone, or lacks delays",
                $store;
                events::a_delayed_event_reaches_those_who_subscribe_when_it_is_due
                events::a_delayed_event_may_find_no_subscriber
                priority::a_delayed_job_keeps_its_priority
            }
            $crate::conformance! { @cases $shared "this store has one engine only", $store;
                competing::each_job_goes_to_one_of_two_engines
                competing::a_waiting_engine_gets_what_another_pushes
                competing::what_one_engine_hands_back_another_gets
                competing::a_retry_is_counted_from_engine_to_engine
                competing::failed_jobs_are_seen_by_every_engine
                shutdown::closing_hands_back_what_is_in_hand
                solo::a_start_without_an_end_counts
                solo::one_consumer_has_them_at_a_time
                seat::a_closed_engine_leaves_its_seats
                seat::engines_take_turns_at_a_seat
            }
            $crate::conformance! { @cases $control "this engine has no control of pools", $store;
                control::questions_and_answers_arrive_unchanged
                control::a_report_may_be_long
                control::every_pool_of_an_engine_answers
                control::an_order_reaches_whom_it_names
                control::a_membership_ends_when_it_is_dropped
                control::consumers_of_no_pool_are_counted
                control::a_pool_that_panics_holds_up_no_other
                control::a_pool_that_is_slow_holds_up_no_other
                control::declared_queues_are_named
                control::questions_to_a_closed_engine_say_so
                pause::a_paused_queue_gives_no_jobs
                pause::a_waiting_consumer_is_paused_and_resumed
                pause::jobs_that_were_taken_ahead_go_back
                pause::jobs_in_flight_are_settled_during_a_pause
                pause::the_record_of_a_pause_is_told
                pause::a_second_pause_replaces_the_record
                pause::a_pause_is_of_one_queue
                pause::a_pause_is_of_all_priorities
                pause::solo_runs_pause
                pause::a_paused_consumer_can_be_stopped
                pause::a_paused_consumer_is_not_counted
                pause::a_paused_queue_can_be_deleted
            }
            $crate::conformance! { @cases $admits "this engine takes no jobs of others", $store;
                moving::an_admitted_job_comes_as_it_was
                moving::an_admitted_job_waits_for_the_rest_of_its_wait
                moving::an_admitted_failed_job_is_a_failed_job
                moving::an_admitted_suspect_runs_alone
                moving::an_admitted_event_reaches_its_subscribers
                moving::jobs_of_an_unknown_queue_are_not_admitted
            }
            $crate::conformance! { @cases $departs "this engine hands no jobs over", $store;
                moving::jobs_depart_in_whatever_state_they_are
                moving::a_job_that_departs_goes_to_no_worker
                moving::what_is_kept_is_taken_once
                moving::events_depart
            }
            $crate::conformance! { @both $departs $shared
                "this engine hands no jobs over, or is alone", $store;
                moving::a_job_in_flight_departs_later
                moving::what_a_closed_engine_has_taken_comes_back
            }
            $crate::conformance! { @both $control $delays "this engine lacks control or delays",
                $store;
                pause::delayed_jobs_fall_due_during_a_pause
            }
            $crate::conformance! { @both $control $shared "this engine lacks control or is alone",
                $store;
                control::pools_of_every_engine_are_asked
                control::pools_of_a_closed_engine_are_not_asked
                pause::a_pause_holds_for_every_engine
            }
        }
    };
    (@both yes $second:ident $why:literal, $store:expr; $($cases:tt)*) => {
        $crate::conformance! { @cases $second $why, $store; $($cases)* }
    };
    (@both no $second:ident $why:literal, $store:expr; $($cases:tt)*) => {
        $crate::conformance! { @cases no $why, $store; $($cases)* }
    };
    (@cases yes $why:literal, $store:expr; $($theme:ident :: $case:ident)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let bench = $crate::engine::conformance::Bench::new($store).await;
            $crate::engine::conformance::cases::$theme::$case(&bench).await;
            bench.finish().await;
        }
    )*};
    (@cases no $why:literal, $store:expr; $($theme:ident :: $case:ident)*) => {$(
        #[test]
        #[ignore = $why]
        fn $case() {}
    )*};
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_is_in_the_table() {
        let table = include_str!("mod.rs");
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/engine/conformance/cases");
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            let theme = path.file_stem().unwrap().to_str().unwrap();
            let cases = std::fs::read_to_string(&path).unwrap();
            for rest in cases.split("\npub async fn ").skip(1) {
                let case = rest.split('(').next().unwrap();
                assert!(table.contains(&format!("{theme}::{case}\n")), "{theme}::{case}");
            }
        }
    }
}
