// Lessons: runs with text that advances with the time. `holds` says what the run must show at its end; the tests check it.
import { RECORDS } from "./world.js";

const S = 1e9;

function count(world, kind, test = () => true) {
  return world.records.filter((record) => record.kind === kind && test(record)).length;
}

export const LESSONS = [
  {
    id: "two", title: "Why one leader is hard",
    settings: { algorithm: "bully" },
    inputs: [{ at: 2 * S, kind: "partition", groups: [0, 1, 1, 1, 2, 2] }, { at: 5 * S, kind: "heal" }], until: 6 * S,
    steps: [
      [0, "Five nodes elect the one with the highest id: node 5."],
      [2 * S, "The network splits: 1, 2, 3 on one side, 4 and 5 on the other."],
      [2.4 * S, "Nodes 1 to 3 no longer hear node 5 and elect node 3. Node 5 does not know. The strip turns red: two leaders act."],
      [5 * S, "The network heals. The higher id wins, but for three seconds both wrote, and the resource accepted stale writes. The next lesson shows a cure."],
    ],
    holds: (frame) => frame.split > 2 * S && frame.leader === 5 && frame.staleAccepted > 0,
  },
  {
    id: "guard", title: "Split brain, and the quorum guard",
    settings: { algorithm: "bully", quorum: 1 },
    inputs: [{ at: 2 * S, kind: "partition", groups: [0, 1, 1, 1, 2, 2] }, { at: 5 * S, kind: "heal" }], until: 6 * S,
    steps: [
      [0, "The same algorithm, with a quorum guard: a leader acts only with timed promises of a majority of all five nodes."],
      [2 * S, "The network splits. Node 5 has two nodes on its side, too few to renew the promises. It stops before they expire."],
      [2.7 * S, "Node 3 has a majority and acts after the old promises have expired. The strip is grey in between, and never red."],
      [5 * S, "After the network heals, node 5 leads again because of its higher id, with a gap and without an overlap. Try it: crash three of the five nodes. No majority is left, so no node leads."],
    ],
    holds: (frame) => frame.split === 0 && frame.leader > 0 && frame.noneActed > 0,
  },
  {
    id: "cascade", title: "Bully's cascade",
    settings: { algorithm: "bully", nodes: 7 },
    inputs: [{ at: 1 * S, kind: "crash", node: 7 }], until: 2 * S,
    steps: [
      [0, "Bully: a node asks all nodes with a higher id. If none answers, it leads."],
      [1 * S, "Node 7, the leader, crashes. Nothing happens until the detectors miss its heartbeats."],
      [1.3 * S, "Every node that notices asks the higher ones, and each of those asks again: a cascade of messages."],
      [1.4 * S, "Node 6 gets no answer from node 7 and announces itself. Try it: restart node 7. It takes leadership back, although node 6 works."],
    ],
    holds: (frame) => frame.leader === 6 && frame.split === 0,
  },
  {
    id: "ring", title: "The ring's lap",
    settings: { algorithm: "ring-list", nodes: 7 },
    inputs: [{ at: 1 * S, kind: "crash", node: 7 }], until: 2 * S,
    steps: [
      [0, "In a ring, each node sends only to the next one that lives."],
      [1 * S, "The leader crashes."],
      [1.3 * S, "An election message makes a lap and collects the ids of the live nodes; the next lap announces the highest."],
    ],
    holds: (frame) => frame.leader === 6,
  },
  {
    id: "merge", title: "Invitation: groups merge",
    settings: { algorithm: "invitation" },
    inputs: [{ at: 2 * S, kind: "partition", groups: [0, 1, 1, 2, 2, 2] }, { at: 4 * S, kind: "heal" }], until: 7 * S,
    steps: [
      [0, "Every node begins as the coordinator of a group of its own. Coordinators find each other and merge."],
      [2 * S, "The network splits. Each side becomes a group with its own coordinator: two leaders act."],
      [4 * S, "The network heals. The coordinators find each other; one invites the other's group. Use it where each side may continue alone, not where two leaders do harm."],
    ],
    holds: (frame) => frame.leader > 0 && frame.split > 0,
  },
  {
    id: "raft", title: "Raft: votes and a partition",
    settings: { algorithm: "raft" },
    inputs: [{ at: 2 * S, kind: "partition", groups: [0, 1, 1, 2, 2, 2] }, { at: 6 * S, kind: "heal" }], until: 8 * S,
    steps: [
      [0, "A follower that hears no leader becomes a candidate. It leads if a majority of all voters votes for it."],
      [2 * S, "The network splits, with the leader, node 1, on the smaller side."],
      [2.3 * S, "The leader cannot reach a majority and stops acting. Only then does the larger side elect another."],
      [4 * S, "The smaller side asks for pre-votes and gets too few: its term does not grow, so it will not disturb the others."],
      [6 * S, "The network heals and all follow the leader of the higher term. The strip was never red: no new leader acts before the old one must have stopped."],
    ],
    holds: (frame, world) => frame.split === 0 && frame.leader > 2 && frame.term === 2 && count(world, RECORDS.loses) >= 1,
  },
  {
    id: "lease", title: "A lease and its gap",
    settings: { algorithm: "lease-quorum", nodes: 3 },
    inputs: [{ at: 2 * S, kind: "crash", node: 0 }], until: 7 * S,
    steps: [
      [0, "Candidates share a store. One acquires a lease of three seconds and renews it; the arc shows the rest of it."],
      [2 * S, "The leader crashes. Its lease is still valid, and no candidate may take it before it expires."],
      [5 * S, "The lease expires, and another candidate acquires it. The grey gap is the price of certainty; a shorter TTL shortens it, but then a short pause or a slow store ends a healthy leadership, too."],
    ],
    holds: (frame) => frame.leader > 0 && frame.split === 0 && frame.timeToLeader > 1 * S && frame.timeToLeader < 4 * S,
  },
  {
    id: "fence", title: "The pause that fencing catches",
    settings: { algorithm: "raft", seed: 6 },
    inputs: [{ at: 2 * S, kind: "pause", node: 5 }, { at: 5 * S, kind: "resume", node: 5 }], until: 7 * S,
    steps: [
      [0, "The leader writes to a resource. Each write carries the leader's token."],
      [2 * S, "The leader is paused, as by a long garbage collection. A write was already past its last check."],
      [3 * S, "Another node leads and writes with a higher token."],
      [5 * S, "The old leader resumes and its write arrives, three seconds late. The resource has seen a higher token and rejects it. The leader itself cannot prevent this: a pause can follow any check."],
    ],
    holds: (frame) => frame.split === 0 && frame.staleTried > 0 && frame.staleAccepted === 0,
  },
  {
    id: "redlock", title: "Redlock's limit",
    settings: { algorithm: "lease-redlock", nodes: 3, seed: 6 },
    inputs: [{ at: 2 * S, kind: "pause", node: 3 }, { at: 8 * S, kind: "resume", node: 3 }], until: 10 * S,
    steps: [
      [0, "Five stores without a common log; a majority of them grants the lease. There is no token."],
      [2 * S, "The leader is paused just before a write."],
      [5 * S, "Its lease expires, and another candidate acquires it and writes."],
      [8 * S, "The old leader resumes, and its late write arrives. Without a token the resource cannot tell: it accepts the stale write. Use such a lease where a doubled write costs time, not correctness."],
    ],
    holds: (frame) => frame.split === 0 && frame.staleAccepted > 0,
  },
  {
    id: "phi", title: "φ against a fixed timeout",
    settings: { algorithm: "bully", versus: "detector phi" },
    inputs: [{ at: 2 * S, kind: "loss", rate: 0.3 }, { at: 10 * S, kind: "crash", node: 5 }], until: 14 * S,
    steps: [
      [0, "Left: a node is suspected after a fixed silence of 400 ms. Right: φ learns how regular the heartbeats are."],
      [2 * S, "The network now loses 30 % of the messages. Sometimes four heartbeats in a row are missing."],
      [4 * S, "The fixed timeout suspects nodes that live, and each wrong suspicion of the leader starts an election. φ has learnt the loss and waits."],
      [10 * S, "Node 5 crashes. Both detectors notice; φ needs more time. Fewer errors cost slower detection."],
    ],
    holds: (frame, world, other) => {
      const wrong = (run) => count(run, RECORDS.suspects, (r) => r.from > 2 * S && r.from < 10 * S);
      const found = (run) => count(run, RECORDS.suspects, (r) => r.from > 10 * S && r.other === 5) > 0;
      return wrong(world) > 4 * wrong(other) && wrong(world) > 3 && found(world) && found(other);
    },
  },
  {
    id: "swim", title: "SWIM's indirect probe",
    settings: { algorithm: "bully", versus: "detector swim" },
    inputs: [{ at: 2 * S, kind: "cut", node: 5, peer: 1 }, { at: 2.001 * S, kind: "cut", node: 1, peer: 5 }], until: 6 * S,
    steps: [
      [0, "Left: every node sends heartbeats to every other. Right: SWIM probes one random node per period."],
      [2 * S, "One link breaks: nodes 1 and 5 no longer reach each other. Both are healthy, and all others reach both."],
      [2.5 * S, "With heartbeats, nodes 1 and 5 suspect each other. In SWIM, a node without an answer asks three others to probe for it."],
      [4 * S, "The others reach the target, so SWIM suspects no node: a broken link is not a dead node."],
    ],
    holds: (frame, world, other) => count(world, RECORDS.suspects) >= 2 && count(other, RECORDS.suspects) === 0,
  },
  {
    id: "oneway", title: "A stable leader and a one-way link",
    settings: { algorithm: "stable" },
    inputs: [{ at: 2 * S, kind: "cut", node: 1, peer: 3 }], until: 6 * S,
    steps: [
      [0, "Node 1 leads. In this algorithm a working leader is not replaced by a better one."],
      [2 * S, "Messages from node 1 to node 3 are lost, in this direction only. Node 3 misses its leader and starts a new round."],
      [3 * S, "The next candidate can reach all nodes and stays. Node 1 does not take leadership back."],
    ],
    holds: (frame) => frame.leader > 0 && frame.leader !== 1,
  },
  {
    id: "handover", title: "A planned hand-over",
    settings: { algorithm: "raft" },
    inputs: [{ at: 2 * S, kind: "transfer", node: 0, peer: 2 }], until: 4 * S,
    steps: [
      [0, "A planned change need not wait for a timeout."],
      [2 * S, "The leader is asked to hand over to node 2. It stops its work, then tells node 2 to start an election at once."],
      [2.1 * S, "Node 2 acts 14 ms after node 1 stopped. After a crash the gap is several hundred milliseconds."],
    ],
    holds: (frame, world) => frame.leader === 2 && frame.split === 0 && world.records.some((r) => r.kind === RECORDS.noneActed && r.from === 2 * S && r.to < 2.015 * S),
  },
];
