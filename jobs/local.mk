# One line a file, sorted: nobase_dist_pkgdata_DATA += %D%/samples/first.yaml
