/* Peers with real disks and sockets on one loop over loopback. Every algorithm elects, a leader
 * that leaves gets a successor, promises survive a restart, and members come and go. Frames that do
 * not belong to the cluster are ignored and counted. TEST_SIZE=small runs fewer combinations. */
#include "system/peer/peer_node.h"
#include "os/clock.h"
#include "system/kit/stall.h"

/* A machine that stalls for so long may cost a peer its leadership: a timeout may be 200 ms. */
#define STALL_MS 100

/* ---- stories ---- */

static void three_peers_elect_by_raft(void **state)
{
    (void)state;
    open_all(3);
    struct bw_peer_status status;
    bw_peer_status(w.node[1].peer, 0, &status);
    assert_true(status.formed);
    assert_int_equal(status.voters, 3);
    assert_int_equal(status.leader, leader());
    assert_non_null(status.leader_member);
    assert_true(w.node[leader()].said.token > 0);
}

static void every_algorithm_elects_a_successor_when_the_leader_leaves(void **state)
{
    (void)state;
    const struct bw_elector_ops *ops;
    for (unsigned i = 0; (ops = bw_elector_at(i)); i++)
        for (int quorum = 0; quorum < 2; quorum++) {
            bool guardable = ops->traits & BW_TRAIT_GUARDABLE;
            if (quorum && !guardable)
                continue;
            if (small() && quorum && i % 3)
                continue;
            print_message("# %s%s\n", ops->name, quorum ? " guarded" : "");
            w.algorithm = ops;
            w.quorum = quorum;
            open_all(3);
            bool token = w.node[leader()].said.token != BW_TOKEN_NONE;
            assert_int_equal(token, quorum || (ops->traits & BW_TRAIT_TOKEN) != 0);
            close_node(leader(), false);
            until(settled, "the others agree on another leader");
            close_all(true);
        }
}

static void every_detector_works_with_five_peers(void **state)
{
    (void)state;
    const struct bw_detector_ops *ops;
    for (unsigned i = 0; (ops = bw_detector_at(i)); i++) {
        print_message("# %s\n", ops->name);
        w.detector = ops;
        w.algorithm = i % 2 ? &bw_elect_raft : &bw_elect_bully;
        open_all(5);
        close_node(leader(), false);
        until(settled, "the others agree on another leader");
        close_all(true);
    }
}

static void terms_and_votes_survive_a_restart_of_all_peers(void **state)
{
    (void)state;
    open_all(3);
    bw_token before = w.highest;
    for (int i = 0; i < 3; i++) {
        close_all(false);
        open_all(3);
        assert_true(w.highest > before);
        before = w.highest;
    }
}

static bool is_member_everywhere(bw_node who, bool voter)
{
    static struct bw_peer_member members[NODES];
    for (bw_node id = 1; id <= NODES; id++) {
        if (!w.node[id].peer)
            continue;
        uint32_t count = bw_peer_members(w.node[id].peer, members, NODES);
        bool found = false;
        for (uint32_t i = 0; i < count; i++)
            found =
                found || (members[i].id == who && !members[i].left && (!voter || members[i].voter));
        if (!found)
            return false;
    }
    return true;
}

static bool four_votes_everywhere(void)
{
    return is_member_everywhere(4, true) && settled();
}

static bool voters_are(uint32_t count)
{
    for (bw_node id = 1; id <= NODES; id++) {
        struct bw_peer_status status;
        if (!w.node[id].peer)
            continue;
        bw_peer_status(w.node[id].peer, 0, &status);
        if (status.voters != count)
            return false;
    }
    return settled();
}

static bool three_voters(void)
{
    return voters_are(3);
}

static void new_peer_becomes_a_voter_and_leaver_is_removed(void **state)
{
    (void)state;
    open_all(3);
    open_node(4);
    until(four_votes_everywhere, "the newcomer is a voter everywhere");
    bw_node first = leader();
    close_node(first, true); /* the leader leaves, and hands over */
    until(three_voters, "the leaver is removed");
    assert_int_not_equal(leader(), first);
    close_node(leader(), false);
    until(settled, "two of three elect");
}

static bool all_know_four(void)
{
    return is_member_everywhere(4, false) && settled();
}

static void new_peer_takes_part_without_a_quorum(void **state)
{
    (void)state;
    w.algorithm = &bw_elect_bully;
    open_all(3);
    open_node(4);
    until(all_know_four, "the newcomer is known");
    close_node(4, true);
    until(settled, "the others continue");
    assert_true(leader() <= 3);
}

static void new_peer_may_lead_with_promises_of_the_founders(void **state)
{
    (void)state;
    w.algorithm = &bw_elect_bully;
    w.quorum = true;
    open_all(3);
    open_node(4);
    until(all_know_four, "the newcomer is known");
    close_node(3, false);
    until(settled, "two founders and the newcomer");
    assert_true(w.node[leader()].said.token > 0);
}

static struct node *guest;
static bool guest_is_known(void)
{
    struct bw_peer_member members[NODES + 1];
    uint32_t seen = 0;
    for (bw_node id = 1; id <= 3; id++) {
        uint32_t count = bw_peer_members(w.node[id].peer, members, NODES);
        for (uint32_t i = 0; i < count; i++)
            seen += members[i].id == guest->id && !members[i].left;
    }
    return seen == 3 && guest->said.leader != BW_NODE_NONE;
}

/* Sessions, replay windows and addresses are kept for a limited number of nodes. */
static void left_peers_free_their_table_entries(void **state)
{
    (void)state;
    w.algorithm = &bw_elect_lowest;
    w.cap = 6;
    open_all(3);
    uint32_t guests = small() ? 8 : 16;
    for (bw_node id = 4; id < 4 + guests; id++) {
        guest = &w.node[id];
        open_node(id);
        until(guest_is_known, "the new node is known and knows the leader");
        close_node(id, true);
    }
    until(settled, "the three are as before");
}

static bool has_new_notices(void)
{
    return w.node[leader()].notices > 0;
}

/* A new member gets a notice, too: a majority without it may not be enough. */
static void death_notices_are_renewed_when_a_peer_joins(void **state)
{
    (void)state;
    struct bw_peer_death_notice notices[NODES];
    open_all(3);
    struct node *n = &w.node[leader()];
    assert_int_equal(bw_peer_death_notices(n->peer, 0, notices, NODES), 2);
    n->notices = 0;
    open_node(4);
    until(has_new_notices, "the leader is notified that its death notices changed");
    assert_int_equal(bw_peer_death_notices(n->peer, 0, notices, NODES), 3);
}

static bool two_ended(void)
{
    return w.node[2].ends > 0;
}

static bw_node refused;

static bool refused_ended(void)
{
    return w.node[refused].ends > 0;
}

static void voter_that_lost_its_directory_is_refused(void **state)
{
    (void)state;
    char directory[SCRATCH_MAX + 16];
    open_all(3);
    if (leader() == 1)
        snprintf(w.first, sizeof w.first, "%s", bw_peer_address(w.node[1].peer));
    close_node(2, false);
    make_directory(2, directory, sizeof directory);
    scratch_remove(directory);
    /* The wiped node is refused even after it has been started more often than the others have
     * seen. */
    for (unsigned starts = 1; starts <= 3; starts++) {
        open_node(2);
        until(two_ended, "the wiped node gives up");
        assert_non_null(strstr(w.node[2].why, "data is gone"));
        assert_int_equal(w.node[2].ended_with, BW_EDAMAGED);
        close_node(2, false);
    }
    until(settled, "the others continue");
}

static bool three_vote(void)
{
    for (bw_node id = 1; id <= 3; id++) {
        struct bw_peer_status status;
        bw_peer_status(w.node[id].peer, 0, &status);
        if (!w.node[id].peer || status.voters != 3 || w.node[id].ends > 0)
            return false;
    }
    return settled();
}

static void wipe(bw_node id)
{
    char directory[SCRATCH_MAX + 16];
    make_directory(id, directory, sizeof directory);
    scratch_remove(directory);
}

/* All founders leave and return, one after the other, until no member remembers the founding. */
static void left_peer_returns_with_an_empty_directory_and_votes(void **state)
{
    (void)state;
    open_all(3);
    for (bw_node id = 3; id >= 1; id--) {
        bw_node other = id % 3 + 1;
        snprintf(w.first, sizeof w.first, "%s", bw_peer_address(w.node[other].peer));
        close_node(id, true);
        wipe(id);
        open_node(id);
        until(three_vote, "all three vote again");
        assert_false(w.node[id].formed_as_voter); /* only the log makes it one */
    }
}

static bw_node absent, returned;

static bool returned_votes(void)
{
    struct bw_peer_member members[NODES];
    struct node *n = &w.node[returned];
    uint32_t count = bw_peer_members(n->peer, members, NODES);
    for (uint32_t i = 0; i < count; i++)
        if (members[i].id == returned && members[i].voter)
            return settled();
    return n->ends > 0;
}

static bool absent_knows_returned_node(void)
{
    struct bw_peer_member members[NODES];
    uint32_t count = bw_peer_members(w.node[absent].peer, members, NODES);
    for (uint32_t i = 0; i < count; i++)
        if (members[i].id == returned &&
            strcmp(members[i].address, bw_peer_address(w.node[returned].peer)) == 0)
            return settled();
    return w.node[returned].ends > 0;
}

/* The absent node's directory still has the address of the other node before it left. */
static void peer_that_missed_the_leaving_accepts_the_returned_peer(void **state)
{
    (void)state;
    open_all(5);
    returned = leader() % 5 + 1;
    absent = returned % 5 + 1;
    snprintf(w.first, sizeof w.first, "%s", bw_peer_address(w.node[leader()].peer));
    close_node(absent, false);
    close_node(returned, true);
    wipe(returned);
    open_node(returned);
    until(returned_votes, "the returned node votes again");
    open_node(absent);
    until(absent_knows_returned_node, "the absent node learns the new address");
    assert_string_equal(w.node[returned].why, "");
    assert_string_equal(w.node[absent].why, "");
}

/* The members still count the vote of the lost directory, so the node cannot return before the
 * leader has removed it. */
static void voter_that_lost_its_directory_returns_after_its_removal(void **state)
{
    (void)state;
    open_all(3);
    bw_node lost = leader() % 3 + 1;
    struct bw_peer_order remove = {.kind = BW_PEER_REMOVE_FORCED, .node = lost};
    snprintf(w.first, sizeof w.first, "%s", bw_peer_address(w.node[leader()].peer));
    close_node(lost, false);
    wipe(lost);
    open_node(lost);
    refused = lost;
    until(refused_ended, "the wiped node gives up");
    assert_non_null(strstr(w.node[lost].why, "peer remove"));
    close_node(lost, false);
    assert_int_equal(bw_peer_order(w.node[leader()].peer, &remove), 0);
    w.node[lost].ends = 0;
    open_node(lost);
    until(three_vote, "all three vote again");
    assert_false(w.node[lost].formed_as_voter);
}

static void a_copied_directory_is_refused(void **state)
{
    (void)state;
    char command[SCRATCH_MAX + 64], why[BW_PEER_WHY_MAX + 1] = "";
    open_all(3);
    close_node(2, false);
    snprintf(command, sizeof command, "cd %s && cp -a 2 x && rm -r 2 && mv x 2", w.dir);
    assert_int_equal(system(command), 0);
    assert_int_equal(try_open(2, why), BW_EDAMAGED);
    assert_non_null(strstr(why, "copy"));
    w.node[2].peer = NULL;
}

static void listed_members_need_no_join_address(void **state)
{
    (void)state;
    char file[SCRATCH_MAX + 16];
    /* The kernel chooses the ports: nodes 2 and 3 learn of each other from node 1, which they join.
     * The list only names the members. */
    snprintf(file, sizeof file, "%s/members", w.dir);
    FILE *out = fopen(file, "w");
    assert_non_null(out);
    fprintf(out, "# the cluster\n1 127.0.0.1:9\n2 127.0.0.1:9 priority=3\n3 127.0.0.1:9\n");
    fclose(out);
    w.members_file = file;
    for (int quorum = 0; quorum < 2; quorum++) {
        w.algorithm = &bw_elect_bully;
        w.quorum = quorum;
        w.expect = 0;
        for (bw_node id = 1; id <= 3; id++)
            open_node(id);
        until(settled, "the listed nodes elect");
        for (bw_node id = 1; id <= NODES; id++)
            close_node(id, false);
        char command[SCRATCH_MAX + 64];
        snprintf(command, sizeof command, "cd %s && rm -rf 1 2 3", w.dir);
        assert_int_equal(system(command), 0);
        w.first[0] = '\0';
        w.highest = 0;
    }
}

static bool foreign_frames_are_refused(void)
{
    struct bw_peer_counters counters;
    bw_peer_counters(w.node[1].peer, &counters);
    return counters.refused > 3;
}

static void frames_of_another_cluster_are_ignored_and_counted(void **state)
{
    (void)state;
    open_all(3);
    w.cluster = "another";
    stall_watch();
    bw_node before = leader();
    open_node(9);
    until(foreign_frames_are_refused, "the frames of the foreign node are counted");
    assert_int_equal(w.node[9].formed, 0);
    assert_false(is_member_everywhere(9, false));
    close_node(9, false);
    if (leader() != before && !stall_excuses(STALL_MS, "the leadership"))
        fail_msg("the leader changed from %u to %u", before, leader());
}

static void frames_with_another_key_are_ignored_and_counted(void **state)
{
    (void)state;
    char file[SCRATCH_MAX + 16], key[BW_KEY_TEXT_MAX + 1], why[BW_KEYRING_WHY_MAX + 1] = "";
    open_all(3);
    snprintf(file, sizeof file, "%s/key", w.dir);
    assert_int_equal(bw_keyring_make_key(key), 0);
    FILE *out = fopen(file, "w");
    fprintf(out, "%s\n", key);
    fclose(out);
    chmod(file, 0600);
    assert_int_equal(bw_keyring_load(&w.keyring, file, why), 0);
    open_node(9);
    until(foreign_frames_are_refused, "the frames of the foreign node are counted");
    assert_int_equal(w.node[9].formed, 0);
    close_node(9, false);
}

/* ---- queries and orders of a client ---- */

static struct {
    struct bw_seal *seal;
    struct bw_datagram *datagram;
    struct bw_peer_frame answer;
    unsigned answers;
    bool lost; /* the handshake dropped the frame that began it */
    bool closed;
} c;

static void on_client_frame(void *context, const struct bw_sealed *frame,
                            const struct sockaddr *from)
{
    (void)context;
    (void)from;
    c.answer.kind = (enum bw_peer_frame_kind)frame->kind;
    assert_int_equal(bw_peer_frame_decode(&c.answer, frame->payload, frame->length), 0);
    c.answers++;
}

static void on_client_lost(void *context, bw_node node, const struct sockaddr *from)
{
    (void)context;
    (void)node;
    (void)from;
    c.lost = true;
}

static void on_client_closed(void *context)
{
    (void)context;
    c.closed = true;
}

static bool client_closed(void)
{
    return c.closed;
}

static void client_open(struct bw_keyring *ring)
{
    char why[BW_DATAGRAM_WHY_MAX + 1];
    struct sockaddr_storage any;
    memset(&c, 0, sizeof c);
    assert_int_equal(bw_peer_address_read("127.0.0.1:0", &any), 0);
    struct bw_seal_options sealing = {
        .ring = ring, .cluster = bw_seal_cluster("bellwether"), .peers_max = 16};
    assert_int_equal(bw_seal_new(&c.seal, &sealing), 0);
    struct bw_datagram_options udp = {.loop = &w.loop,
                                      .seal = c.seal,
                                      .listen = (struct sockaddr *)&any,
                                      .peers_max = 16,
                                      .frame = on_client_frame,
                                      .lost = on_client_lost};
    assert_int_equal(bw_datagram_open(&c.datagram, &udp, why), 0);
}

static void client_close(void)
{
    bw_datagram_close(c.datagram, on_client_closed);
    until(client_closed, "the client closes");
    bw_seal_free(c.seal);
}

static bool client_answered_or_lost(void)
{
    return c.answers > 0 || c.lost;
}

static bool client_answered(void)
{
    return c.answers > 0;
}

/* Asks once, and once more if the handshake dropped the first frame. */
static void ask(bw_node whom, const struct bw_peer_frame *question)
{
    unsigned char bytes[256];
    struct sockaddr_storage address;
    int length = bw_peer_frame_encode(question, bytes, sizeof bytes);
    assert_true(length > 0);
    assert_int_equal(bw_peer_address_read(bw_peer_address(w.node[whom].peer), &address), 0);
    c.answers = 0;
    c.lost = false;
    bw_datagram_send_to(c.datagram, (struct sockaddr *)&address, BW_NODE_NONE, question->kind,
                        bytes, (size_t)length);
    until(client_answered_or_lost, "an answer or the handshake");
    if (c.lost)
        bw_datagram_send_to(c.datagram, (struct sockaddr *)&address, BW_NODE_NONE, question->kind,
                            bytes, (size_t)length);
    until(client_answered, "an answer");
}

static bw_node old_leader;
static bool led_by_another(void)
{
    return settled() && leader() != old_leader;
}

static void client_reads_each_view_and_may_ask_the_leader_to_resign(void **state)
{
    (void)state;
    struct bw_keyring *ring = bw_keyring_public();
    open_all(3);
    client_open(ring);
    for (bw_node id = 1; id <= 3; id++) {
        struct bw_peer_frame members = {.kind = BW_PEER_QUERY,
                                        .query = {.request = 7, .what = BW_PEER_ASK_MEMBERS}};
        struct bw_peer_frame elections = {.kind = BW_PEER_QUERY,
                                          .query = {.request = 8, .what = BW_PEER_ASK_ELECTIONS}};
        ask(id, &members);
        assert_int_equal(c.answer.view.request, 7);
        assert_int_equal(c.answer.view.count, 3);
        assert_true(c.answer.view.formed && c.answer.view.seen[2].voter);
        ask(id, &elections);
        assert_int_equal(c.answer.view.standing[0].leader, leader());
        assert_int_equal(c.answer.view.standing[0].leading, id == leader());
    }
    struct bw_peer_frame order = {.kind = BW_PEER_ORDER,
                                  .order = {.request = 9, .kind = BW_PEER_RESIGN}};
    old_leader = leader();
    ask(old_leader % 3 + 1, &order);
    assert_int_equal(-c.answer.order.error, BW_ENOTLEADER);
    assert_int_equal(c.answer.order.node, old_leader);
    ask(old_leader, &order);
    assert_true(c.answer.order.answer && c.answer.order.error == 0);
    until(led_by_another, "the leader has resigned");
    ask(old_leader, &order); /* repeated, because the answer was lost */
    assert_true(c.answer.order.answer && c.answer.order.error == 0);
    old_leader = leader();
    struct bw_peer_order transfer = {.kind = BW_PEER_TRANSFER, .node = old_leader % 3 + 1};
    assert_int_equal(bw_peer_order(w.node[old_leader % 3 + 1].peer, &transfer), 0);
    until(led_by_another, "the leadership was transferred");
    client_close();
    bw_keyring_free(ring);
}

static bool old_leader_has_stopped(void)
{
    return !acts(&w.node[old_leader], bw_clock_boot());
}

/* The announcement "my work up to this term is dead" frees the voters. If the transfer after it
 * fails, the leader must not act again under the same term: a voter that receives the announcement
 * late would drop a promise that is in use. */
static void leader_does_not_act_again_under_a_term_announced_dead(void **state)
{
    (void)state;
    open_all(3);
    old_leader = leader();
    bw_node next_leader = old_leader % 3 + 1;
    bw_term term = w.node[old_leader].said.term;
    struct bw_command transfer = {.kind = BW_COMMAND_TRANSFER, .node = next_leader};
    close_node(next_leader, false);
    bw_peer_dead(w.node[old_leader].peer, 0, next_leader);
    assert_int_equal(bw_peer_command(w.node[old_leader].peer, &transfer), 0);
    until(old_leader_has_stopped, "the leader hands over");
    until(settled, "a node leads after the failed transfer");
    assert_true(w.node[leader()].said.term > term);
}

static bw_term old_term;
static bool leads_a_newer_term(void)
{
    return settled() && w.node[1].said.term > old_term;
}

/* The peer is elected again before its loop gets to a death report and a resignation that belong to
 * the leadership before. They must not end the newer one. */
static void late_report_and_resignation_do_not_end_a_later_leadership(void **state)
{
    (void)state;
    struct bw_command resign = {.kind = BW_COMMAND_RESIGN},
                      campaign = {.kind = BW_COMMAND_CAMPAIGN};
    open_all(1);
    struct bw_peer *peer = w.node[1].peer;
    for (int i = 0; i < 2; i++) {
        old_term = w.node[1].said.term;
        assert_int_equal(bw_peer_command(peer, &resign), 0);
        assert_int_equal(bw_peer_command(peer, &campaign), 0);
        if (i == 0)
            bw_peer_dead(peer, 0, BW_NODE_NONE);
        else
            assert_int_equal(bw_peer_command(peer, &resign), 0);
        stall_watch();
        until(leads_a_newer_term, "the peer leads again");
        assert_int_equal(w.node[1].said.term, old_term + 1);
        pass(3 * 15 * PERIOD / BW_MS); /* the window was extended several times */
        bool leads_on = w.node[1].said.term == old_term + 1 && w.node[1].leading;
        if (!leads_on && !stall_excuses(STALL_MS, "the leadership"))
            fail_msg("the newer leadership has ended");
    }
}

static uint32_t crowd;

static bool crowd_knows_itself(void)
{
    struct bw_peer_member members[NODES];
    for (bw_node id = 1; id <= crowd; id++)
        if (bw_peer_members(w.node[id].peer, members, NODES) != crowd)
            return false;
    return settled();
}

static uint64_t frames_out(void)
{
    uint64_t sum = 0;
    for (bw_node id = 1; id <= crowd; id++) {
        struct bw_peer_counters counters;
        bw_peer_counters(w.node[id].peer, &counters);
        sum += counters.frames_out;
    }
    return sum;
}

/* SWIM's cost per member and period does not grow with the cluster. */
static void cost_per_peer_does_not_grow_with_the_cluster(void **state)
{
    (void)state;
    double rates[2];
    uint32_t sizes[] = {10, small() ? 16 : NODES};
    for (int i = 0; i < 2; i++) {
        w.detector = &bw_detect_swim;
        w.algorithm = &bw_elect_lowest;
        crowd = sizes[i];
        open_all(crowd);
        until(crowd_knows_itself, "all nodes know all others");
        pass(500);
        bw_time begin = bw_clock_boot();
        uint64_t before = frames_out();
        pass(2000);
        double periods = (double)(bw_clock_boot() - begin) / (double)PERIOD;
        rates[i] = (double)(frames_out() - before) / crowd / periods;
        print_message("# %u members: %.2f frames per member and period\n", crowd, rates[i]);
        close_all(true);
    }
    assert_true(rates[1] < 2 * rates[0] + 1);
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

/* "every": all algorithms and detectors; "crowd": many peers; no argument: the stories. */
int main(int count, char **words)
{
    const struct CMUnitTest every[] = {
        STORY(every_algorithm_elects_a_successor_when_the_leader_leaves),
        STORY(every_detector_works_with_five_peers),
    };
    const struct CMUnitTest many[] = {STORY(cost_per_peer_does_not_grow_with_the_cluster)};
    const struct CMUnitTest stories[] = {
        STORY(three_peers_elect_by_raft),
        STORY(terms_and_votes_survive_a_restart_of_all_peers),
        STORY(new_peer_becomes_a_voter_and_leaver_is_removed),
        STORY(new_peer_takes_part_without_a_quorum),
        STORY(new_peer_may_lead_with_promises_of_the_founders),
        STORY(left_peers_free_their_table_entries),
        STORY(death_notices_are_renewed_when_a_peer_joins),
        STORY(voter_that_lost_its_directory_is_refused),
        STORY(left_peer_returns_with_an_empty_directory_and_votes),
        STORY(peer_that_missed_the_leaving_accepts_the_returned_peer),
        STORY(voter_that_lost_its_directory_returns_after_its_removal),
        STORY(a_copied_directory_is_refused),
        STORY(listed_members_need_no_join_address),
        STORY(frames_of_another_cluster_are_ignored_and_counted),
        STORY(frames_with_another_key_are_ignored_and_counted),
        STORY(client_reads_each_view_and_may_ask_the_leader_to_resign),
        STORY(leader_does_not_act_again_under_a_term_announced_dead),
        STORY(late_report_and_resignation_do_not_end_a_later_leadership),
    };
    signal(SIGPIPE, SIG_IGN); /* like every program that runs peers */
    if (count > 1 && strcmp(words[1], "every") == 0)
        return cmocka_run_group_tests(every, NULL, NULL);
    if (count > 1 && strcmp(words[1], "crowd") == 0)
        return cmocka_run_group_tests(many, NULL, NULL);
    return cmocka_run_group_tests(stories, NULL, NULL);
}
