/* A free port for a server that a test starts, stops and starts again. */
#ifndef BW_TESTS_SYSTEM_KIT_PORTS_H
#define BW_TESTS_SYSTEM_KIT_PORTS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

/* Below the range from which the kernel takes the ports of outgoing connections. Otherwise such a
 * connection could take the port while the server is stopped. */
#define PORT_LOW  15000u
#define PORT_HIGH 32000u

static inline bool is_port_free(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    bool is_free = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    if (fd >= 0)
        close(fd);
    return is_free;
}

static inline uint16_t free_port(void)
{
    for (int i = 0; i < 2000; i++) {
        uint16_t draw;
        if (getrandom(&draw, sizeof draw, 0) != (ssize_t)sizeof draw)
            continue;
        uint16_t port = (uint16_t)(PORT_LOW + draw % (PORT_HIGH - PORT_LOW));
        if (is_port_free(port))
            return port;
    }
    fprintf(stderr, "no free port on 127.0.0.1 between %u and %u\n", PORT_LOW, PORT_HIGH);
    exit(1);
}

#endif
