/** Why a leadership ended. */
export type Reason =
  | 'expired' | 'taken' | 'resigned' | 'transferred' | 'unhealthy' | 'unreachable' | 'shut-down';

/** Options of a candidate. Times are in milliseconds. */
export interface Options {
  /** Unique among all candidates, at most 63 bytes. Default: host-pid-random. */
  id?: string;
  /** Published with the leadership, for example an address. */
  value?: string;
  /** How long a leadership lasts without renewal. Default: 10000. */
  ttl?: number;
  /** Time that the work has to end after the loss. Default: 2000, at most ttl/5. */
  killAfter?: number;
  margin?: number;
  retry?: number;
  grace?: number;
  driftPpm?: number;
  clockUncertainty?: number;
  /** Candidates with a higher priority go first. */
  priority?: number;
  /** Asks the leader for a transfer, once per ttl. */
  preferred?: boolean;
  /**
   * What happens if the work has not ended by its deadline. 'abort': a thread of the library, or a
   * timer of the kernel, ends the process before another candidate can lead, even if the event
   * loop is blocked. 'report' (default): nothing; protect the storage with the token.
   */
  overdue?: 'report' | 'abort';
  /** Ends the wait for the election, or aborts the work. */
  signal?: AbortSignal;
}

/** A leadership, valid while the work runs. */
export interface Leadership {
  /** Aborted when the leadership is lost, or with Options.signal. */
  readonly signal: AbortSignal;
  /** Fencing token; 0n: the store issues none. */
  readonly token: bigint;
  /** ID of this candidate. */
  readonly id: string;
  /** Compares the deadline of the lease with the clock. */
  readonly isLeader: boolean;
  /** Milliseconds until the work must have ended. */
  readonly valid: number;
  /** Why the leadership is over; null while it lasts. */
  readonly reason: Reason | null;
  /** Throws LeadershipLost unless this candidate leads. */
  check(): void;
  /** Asks the candidate with this ID to take over. */
  transfer(successor: string): void;
  /** Reports whether this program is fit to lead. */
  healthy(healthy: boolean): void;
}

export class LeadershipLost extends Error {
  readonly code: 'LEADERSHIP_LOST';
  readonly reason: Reason;
}

export interface LeaderInfo {
  id: string;
  token: bigint;
  value: string;
}

/**
 * Waits until this candidate leads, calls the work, and resigns when the promise of the work has
 * settled. Rejects with LeadershipLost if the leadership was lost before that, with the reason of
 * options.signal if it was aborted, or with an Error whose code is that of bellwether.h ('EINVAL').
 */
export function lead<T>(
  url: string, election: string, work: (leadership: Leadership) => T | PromiseLike<T>,
  options?: Options): Promise<T>;

/** The current leader, and then each change; null: no leader. Ends with the signal. */
export function observe(
  url: string, election: string, options?: { signal?: AbortSignal }): AsyncGenerator<LeaderInfo | null, void, void>;

/** Reads the current leader from the store; null: no leader. */
export function leader(url: string, election: string): Promise<LeaderInfo | null>;

/**
 * Checks the token, locks the guard of the file, calls the function, which writes to the file, and
 * releases the guard when its promise has settled. A newer leader that uses holdToken, too, waits
 * until then, also if this process is stopped meanwhile. Every older token is rejected from then on.
 *
 * Without calling the function, rejects with an Error with the code 'ESTALE' if a newer leader has
 * written, with one with the code 'EBUSY' if the lock was not free within options.timeout
 * milliseconds (default: no limit), and with the reason of options.signal if it is aborted before.
 * An aborted signal does not end the function. The function must not call holdToken for the same
 * file: it would wait for itself.
 */
export function holdToken<T>(
  path: string, token: bigint, write: () => T | PromiseLike<T>,
  options?: { timeout?: number; signal?: AbortSignal }): Promise<T>;

/**
 * Accepts the token at the guard of the file, and from then on rejects every older one: throws an
 * Error with the code 'ESTALE'. A newer leader may check and write between this call and a write that
 * follows it: use holdToken if the file must not be written late.
 */
export function checkToken(path: string, token: bigint): void;
