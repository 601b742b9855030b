"""The rules of an election, without a clock and without a server."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.manager.leader_election import ElectionState, LeaderElection, LeaderElectionRecord

OTHER = LeaderElectionRecord("other", 15, "then", "then", 3)


def candidate(**options):
    return ElectionState(LeaderElection(name="shop", **options), "me")


def test_a_missing_lease_is_acquired():
    election = candidate()
    election.observe(None, 0)
    assert election.desired_record(0, "now") == LeaderElectionRecord("me", 15, "now", "now", 0)


def test_a_candidate_takes_over_only_a_full_lease_after_the_last_observed_change():
    election = candidate()
    election.observe(OTHER, 100)
    election.observe(OTHER, 114)
    assert election.desired_record(114.9, "now") is None
    assert election.desired_record(115, "now") == LeaderElectionRecord("me", 15, "now", "now", 4)


def test_a_renewal_by_the_holder_starts_the_wait_again():
    election = candidate()
    election.observe(OTHER, 100)
    election.observe(LeaderElectionRecord("other", 15, "then", "later", 3), 110)
    assert election.desired_record(120, "now") is None
    assert election.desired_record(125, "now") is not None


def test_the_lease_duration_of_the_holder_counts():
    election = candidate()
    election.observe(LeaderElectionRecord("other", 60, "then", "then", 0), 0)
    assert election.desired_record(59, "now") is None
    assert election.desired_record(60, "now") is not None


def test_a_record_without_a_duration_uses_ours():
    election = candidate(lease=20)
    election.observe(LeaderElectionRecord("other", 0, "then", "then", 0), 0)
    assert election.desired_record(19, "now") is None


def test_clocks_of_other_machines_are_ignored():
    election = candidate()
    election.observe(LeaderElectionRecord("other", 15, "1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z", 0), 50)
    assert election.desired_record(64, "now") is None
    assert election.desired_record(65, "now") is not None


def test_a_released_lease_is_acquired_at_once():
    election = candidate()
    election.observe(OTHER, 0)
    election.observe(LeaderElectionRecord("", 1, "then", "then", 3), 1)
    assert election.desired_record(1, "now") == LeaderElectionRecord("me", 15, "now", "now", 4)


def test_a_leader_leads_from_the_sending_of_its_renewal_until_the_renew_deadline():
    election = candidate()
    assert not election.leads(0)
    election.record_written(LeaderElectionRecord("me", 15, "now", "now"), 10)
    assert election.leads(19.9)
    assert not election.leads(20)
    assert election.deadline == 20


def test_a_renewal_keeps_acquire_time_and_transitions():
    election = candidate()
    election.observe(LeaderElectionRecord("me", 15, "then", "then", 7), 0)
    assert election.desired_record(1, "now") == LeaderElectionRecord("me", 15, "then", "now", 7)


def test_a_leader_that_observes_another_holder_stops_leading():
    election = candidate()
    election.record_written(LeaderElectionRecord("me", 15, "now", "now"), 0)
    election.observe(OTHER, 1)
    assert not election.leads(1)
    assert election.holder == "other"


def test_a_leader_whose_lease_was_deleted_does_not_lead_until_it_is_created_again():
    election = candidate()
    election.record_written(LeaderElectionRecord("me", 15, "now", "now"), 0)
    election.observe(None, 1)
    assert not election.leads(1)
    assert election.desired_record(1, "now") is not None


def test_a_leader_that_resigns_stops_leading_and_releases_the_record():
    election = candidate()
    election.record_written(LeaderElectionRecord("me", 15, "then", "then", 2), 0)
    election.resign()
    assert not election.leads(0)
    assert election.released_record("now") == LeaderElectionRecord("", 1, "now", "now", 2)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"name": ""}, "name"),
        ({"namespace": ""}, "namespace"),
        ({"identity": ""}, "identity"),
        ({"lease": 10}, "lease"),
        ({"lease": 0, "renew": 0.5, "retry": 0.1}, "lease"),
        ({"lease": 15.5}, "lease"),
        ({"renew": 2.4}, "renew"),
        ({"retry": 0}, "retry"),
    ],
)
def test_invalid_timings_and_missing_names_raise_a_config_error_with_the_field(options, field):
    with pytest.raises(ConfigError, match=rf"LeaderElection\({field}="):
        LeaderElection(**{"name": "shop", **options})


def test_candidates_retry_with_jitter():
    settings = LeaderElection(name="shop")
    assert settings.retry_delay(0.0) == 2.0
    assert settings.retry_delay(1.0) == pytest.approx(4.4)


def test_a_request_may_take_half_the_renew_deadline_and_at_least_a_second():
    assert LeaderElection(name="shop").request_timeout == 5.0
    assert LeaderElection(name="shop", lease=2, renew=1.5, retry=1).request_timeout == 1.0
