/* Decides from the mode of a file whether users who should not see its secret can read it.
 *
 * The rule is that of PostgreSQL for private keys. Other users have no access. The group may read a
 * file that belongs to root. systemd passes a credential to the user of a service in that way
 * (LoadCredential=): it gives the user an ACL entry, and the mode then shows the mask of the ACL in
 * place of the group's bits: 0440 for a file that its group cannot read. Kubernetes mounts a secret
 * for the group of a pod. The owner is not judged, because the owner knows the secret already.
 *
 * Not seen: an ACL entry for another user on a file of root. */
#ifndef BW_OS_SECRET_FILE_H
#define BW_OS_SECRET_FILE_H

#include <stdbool.h>
#include <sys/stat.h>

static inline bool bw_secret_file_is_exposed(const struct stat *file)
{
    mode_t denied = file->st_uid == 0 ? S_IWGRP | S_IXGRP | S_IRWXO : S_IRWXG | S_IRWXO;
    return (file->st_mode & denied) != 0;
}

#endif
