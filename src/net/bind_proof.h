/* How the last bytes of a connection end a lease that is bound to it by `farewell`: the format that
 * the client (store/etcd/client.c), its guardian (run/guardian/farewell.c) and the server
 * (serve/api/binding.h) share.
 *
 *   metadata   bellwether-bind: farewell=HEX   HEX: SHA-256 of the proof, 64 lower-case digits
 *   0..8       00 00 20 be 00 00 00 00 00      head of an HTTP/2 frame of an unknown type
 *   9..40      the proof, 32 bytes             then FIN
 *
 * Between two frames of a connection in the clear it is passed over like any unknown frame. Inside
 * a frame or a TLS record it is not: the server looks at the last bytes of the TCP stream, whatever
 * they seem to be part of. */
#ifndef BW_NET_BIND_PROOF_H
#define BW_NET_BIND_PROOF_H

#define BW_BIND_HEAD  9u
#define BW_BIND_PROOF 32u
#define BW_BIND_BYTES (BW_BIND_HEAD + BW_BIND_PROOF)
#define BW_BIND_FRAME 0xbe /* the frame's type */
#define BW_BIND_WORD  "farewell="

#endif
