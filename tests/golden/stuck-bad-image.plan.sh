# Deployment shop/web: nothing to do now
