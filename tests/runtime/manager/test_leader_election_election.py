"""The rules of an election, without a clock and without a server."""

import pytest

from levelset.errors import ConfigError
from levelset.runtime.manager.leader_election import Election, LeaderElection, Record

OTHER = Record("other", 15, "then", "then", 3)


def candidate(**options):
    return Election(LeaderElection(name="shop", **options), "me")


def test_a_lease_that_nobody_made_is_taken():
    election = candidate()
    election.see(None, 0)
    assert election.wanted(0, "now") == Record("me", 15, "now", "now", 0)


def test_a_candidate_takes_over_only_a_full_lease_after_the_last_change_that_it_saw():
    election = candidate()
    election.see(OTHER, 100)
    election.see(OTHER, 114)
    assert election.wanted(114.9, "now") is None
    assert election.wanted(115, "now") == Record("me", 15, "now", "now", 4)


def test_a_renewal_by_the_holder_starts_the_wait_again():
    election = candidate()
    election.see(OTHER, 100)
    election.see(Record("other", 15, "then", "later", 3), 110)
    assert election.wanted(120, "now") is None
    assert election.wanted(125, "now") is not None


def test_the_holders_own_lease_counts_not_ours():
    election = candidate()
    election.see(Record("other", 60, "then", "then", 0), 0)
    assert election.wanted(59, "now") is None
    assert election.wanted(60, "now") is not None


def test_a_record_without_a_duration_is_given_ours():
    election = candidate(lease=20)
    election.see(Record("other", 0, "then", "then", 0), 0)
    assert election.wanted(19, "now") is None


def test_clocks_of_other_machines_play_no_part():
    election = candidate()
    election.see(Record("other", 15, "1970-01-01T00:00:00Z", "2099-01-01T00:00:00Z", 0), 50)
    assert election.wanted(64, "now") is None
    assert election.wanted(65, "now") is not None


def test_a_lease_that_was_given_up_is_taken_at_once():
    election = candidate()
    election.see(OTHER, 0)
    election.see(Record("", 1, "then", "then", 3), 1)
    assert election.wanted(1, "now") == Record("me", 15, "now", "now", 4)


def test_a_leader_leads_from_the_sending_of_its_renewal_until_the_renew_deadline():
    election = candidate()
    assert not election.leads(0)
    election.wrote(Record("me", 15, "now", "now"), 10)
    assert election.leads(19.9)
    assert not election.leads(20)
    assert election.deadline == 20


def test_a_renewal_keeps_since_when_and_how_often():
    election = candidate()
    election.see(Record("me", 15, "then", "then", 7), 0)
    assert election.wanted(1, "now") == Record("me", 15, "then", "now", 7)


def test_a_leader_that_sees_another_holder_leads_no_longer():
    election = candidate()
    election.wrote(Record("me", 15, "now", "now"), 0)
    election.see(OTHER, 1)
    assert not election.leads(1)
    assert election.holder == "other"


def test_a_leader_whose_lease_was_deleted_does_not_lead_until_it_is_made_again():
    election = candidate()
    election.wrote(Record("me", 15, "now", "now"), 0)
    election.see(None, 1)
    assert not election.leads(1)
    assert election.wanted(1, "now") is not None


def test_whoever_resigns_leads_no_longer_and_hands_over_an_empty_record():
    election = candidate()
    election.wrote(Record("me", 15, "then", "then", 2), 0)
    election.resign()
    assert not election.leads(0)
    assert election.given_up("now") == Record("", 1, "now", "now", 2)


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
def test_bad_timings_and_missing_names_are_refused_with_the_field(options, field):
    with pytest.raises(ConfigError, match=rf"LeaderElection\({field}="):
        LeaderElection(**{"name": "shop", **options})


def test_candidates_do_not_look_in_step():
    settings = LeaderElection(name="shop")
    assert settings.pause(0.0) == 2.0
    assert settings.pause(1.0) == pytest.approx(4.4)


def test_a_request_may_take_half_the_renew_deadline_and_at_least_a_second():
    assert LeaderElection(name="shop").patience == 5.0
    assert LeaderElection(name="shop", lease=2, renew=1.5, retry=1).patience == 1.0
