/* The clean close of a connection. The sender writes a secret proof as the last bytes of the
 * connection; the server then ends the leases that are bound to it with `farewell`. The client
 * (store/etcd/client.c), its guardian (run/guardian/clean_close.c) and the server
 * (serve/api/binding.h) share this format.
 *
 *   metadata   bellwether-bind: farewell=HEX   HEX: SHA-256 of the proof, 64 lower-case digits
 *   0..8       00 00 20 be 00 00 00 00 00      head of an HTTP/2 frame of an unknown type
 *   9..40      the proof, 32 bytes             then FIN
 *
 * Without TLS and between two frames, HTTP/2 ignores these bytes like any frame of an unknown type.
 * A client may also die in the middle of a frame or a TLS record; then they do not form a frame.
 * Therefore the server compares the last bytes of the TCP stream, whatever they seem to be part
 * of. */
#ifndef BW_NET_CLEAN_CLOSE_PROOF_H
#define BW_NET_CLEAN_CLOSE_PROOF_H

#define BW_BIND_HEAD  9u
#define BW_BIND_PROOF 32u
#define BW_BIND_BYTES (BW_BIND_HEAD + BW_BIND_PROOF)
#define BW_BIND_FRAME 0xbe /* the frame's type */
#define BW_BIND_WORD  "farewell="

#endif
