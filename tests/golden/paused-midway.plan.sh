sh -eu -c '
# Deployment shop/web: nothing to do now
'
