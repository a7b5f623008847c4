/* base/group.h - a group that may read the files of jobs. New files in a folder with the
 * set-group-ID bit get the group of the folder (inode(7)). */
#ifndef BASE_GROUP_H
#define BASE_GROUP_H

#include <sys/types.h>

#include "base/error.h"

#define GROUP_NONE ((gid_t)-1)

/* Find a group by its name or number (NULL: GROUP_NONE), and let this process and its
 * children make files that their group may read. ERROR_USAGE if there is none, or if this
 * process may not give files to it. */
bool group_open(const char *name, gid_t *out, struct error *err);
/* Give an own folder to the group, as well as what is made in it from now on. GROUP_NONE:
 * do nothing. */
bool group_share(const char *dir, gid_t group, struct error *err);
/* Make the folders of a path that are missing, and give them to the group. */
bool group_make_dirs(const char *path, gid_t group, struct error *err);

#endif
