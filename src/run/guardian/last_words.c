/* Last words as a file in memory, and by the socket; see last_words.h. */
#include "run/guardian/last_words.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_all(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t wrote = write(fd, bytes, length);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return -1;
        bytes += wrote;
        length -= (size_t)wrote;
    }
    return 0;
}

int bw_last_words_write(const struct bw_last_word *rows, uint32_t count)
{
    if (count > BW_LAST_WORDS_MAX) {
        errno = EINVAL;
        return -1;
    }
    int fd = memfd_create("bellwether-last-words", MFD_CLOEXEC);
    if (fd < 0)
        return -1;
    if (write_all(fd, (const char *)rows, count * sizeof *rows) == 0)
        return fd;
    int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool say(int socket, const struct bw_last_word *word)
{
    struct sockaddr_storage to;
    if (word->to_length > sizeof word->to || word->length > sizeof word->bytes)
        return false;
    memcpy(&to, word->to, word->to_length);
    return sendto(socket, word->bytes, word->length, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&to, word->to_length) == (ssize_t)word->length;
}

uint32_t bw_last_words_say(int words, int socket)
{
    struct bw_last_word word;
    struct stat st;
    uint32_t said = 0;
    if (fstat(words, &st) != 0 || st.st_size % (off_t)sizeof word != 0 ||
        st.st_size > (off_t)(BW_LAST_WORDS_MAX * sizeof word))
        return 0;
    for (off_t at = 0; at < st.st_size; at += (off_t)sizeof word)
        if (pread(words, &word, sizeof word, at) == (ssize_t)sizeof word)
            said += say(socket, &word);
    return said;
}
